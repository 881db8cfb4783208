// SPDX-License-Identifier: Apache-2.0
// What is refused, by the classes that programs catch; and network rules.
import { assert, test, create, rejects, main, Sandbox, SandboxError, SandboxNotFoundError, AuthenticationError, NotFoundError,
  ALL_TRAFFIC } from './check.mjs'

test('a wrong key, and a template that is not there', async () => {
  await rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  await rejects(Sandbox.list({ apiKey: 'e2b_' + '0'.repeat(40) }).nextItems(), AuthenticationError)
  const error = await rejects(Sandbox.create('no-such-template'), Error)
  assert.match(error.message, /template 'no-such-template' not found/)
})

test('what makes no sense is refused, and says why', async () => {
  await rejects(Sandbox.create({ timeoutMs: -1 }), SandboxError, /timeout/)
  await rejects(Sandbox.create({ network: { allowOut: ['127.0.0.1'], denyOut: [ALL_TRAFFIC] } }), SandboxError, /not public/)
  await rejects(Sandbox.create({ network: { allowOut: ['example.com'] } }), SandboxError, /denyOut/)
  await rejects(Sandbox.create({ network: { egressProxy: { address: 'proxy.test:1080' } } }), SandboxError, /egressProxy/)
})

test('calls about what is not there', async () => {
  const id = 'i00000000000000000000'
  await rejects(Sandbox.getInfo(id), SandboxNotFoundError)
  await rejects(Sandbox.setTimeout(id, 1000), SandboxNotFoundError)
  await rejects(Sandbox.pause(id), SandboxNotFoundError)
  await rejects(Sandbox.connect(id), SandboxNotFoundError)
  await rejects(Sandbox.getMetrics(id), SandboxNotFoundError)
  await rejects(Sandbox.updateNetwork(id, {}), SandboxNotFoundError)
  await rejects(Sandbox.createSnapshot(id), SandboxNotFoundError)
  await rejects(Sandbox.fork(id), NotFoundError)
  assert.equal(await Sandbox.kill(id), false)
  assert.equal(await Sandbox.deleteSnapshot('local/no-such:default'), false)
})

test('network rules are kept, shown, and replaced', async () => {
  const sandbox = await create({ network: { denyOut: [ALL_TRAFFIC], allowOut: ['1.1.1.1', 'example.com'] } })
  const before = await sandbox.getInfo()
  assert.deepEqual(before.network.allowOut, ['1.1.1.1', 'example.com'])
  await sandbox.updateNetwork({ denyOut: ['8.8.8.0/24'] })
  const after = await sandbox.getInfo()
  assert.deepEqual(after.network.denyOut, ['8.8.8.0/24'])
  assert.ok(!after.network.allowOut?.length)
  await rejects(sandbox.updateNetwork({ denyOut: ['example.com'] }), SandboxError, /names cannot be denied/)
  await sandbox.updateNetwork({ allowInternetAccess: false })
  assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
})

test('without a network nothing is reached', async () => {
  const sandbox = await create({ allowInternetAccess: false })
  const result = await sandbox.commands.run('python3 - <<"X"\nimport socket\ntry:\n    socket.create_connection(("1.1.1.1", 80), 5)\n    print("open")\nexcept OSError as e:\n    print("refused")\nX')
  assert.equal(result.stdout, 'refused\n')
})

test('a private sandbox has a token for its ports', async () => {
  const sandbox = await create({ network: { allowPublicTraffic: false } })
  assert.ok(sandbox.trafficAccessToken)
  assert.equal((await create()).trafficAccessToken ?? null, null)
  assert.equal((await sandbox.commands.run('echo fine')).stdout, 'fine\n')
})

await main()
