// SPDX-License-Identifier: Apache-2.0
// One step of an agent that was written for E2B. It runs here with the three variables that `atoll serve` prints:
//     npm install e2b; node e2b-agent.mjs
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({
  metadata: { task: 'example' },
  timeoutMs: 60_000,
  network: { denyOut: ['0.0.0.0/0'], allowOut: ['pypi.org', 'files.pythonhosted.org'] },
})
try {
  await sandbox.files.write('primes.py', 'print([n for n in range(2, 50) if all(n % d for d in range(2, n))])\n')
  const before = await sandbox.createSnapshot()
  const run = await sandbox.commands.run('python3 primes.py', { onStdout: (text) => process.stdout.write(text) })
  console.log('exit code', run.exitCode, 'snapshot', before.snapshotId)
  await Sandbox.deleteSnapshot(before.snapshotId)
} finally {
  await sandbox.kill()
}
