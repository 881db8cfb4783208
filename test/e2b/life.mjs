// SPDX-License-Identifier: Apache-2.0
// The life of sandboxes: Sandbox.create, list, connect, pause, fork, snapshots and the rest.
import { assert, test, create, keep, rejects, until, main, Sandbox, SandboxNotFoundError, TimeoutError,
  SandboxError, NotFoundError, Secret, SecretNotFoundError } from './check.mjs'

const mark = `${process.pid}-${Date.now()}`

async function all(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

test('create, and what is told about it', async () => {
  const before = Date.now()
  const sandbox = await create({ metadata: { mark, a: 'b c', 'x&y=z': 'ü %20+' }, envs: { FOO: 'bar' }, timeoutMs: 120_000 })
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await sandbox.isRunning(), true)
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.deepEqual(info.metadata, { mark, a: 'b c', 'x&y=z': 'ü %20+' })
  assert.equal(info.state, 'running')
  assert.ok(info.startedAt.getTime() >= before - 1000 && info.startedAt.getTime() <= Date.now() + 1000)
  assert.ok(Math.abs(info.endAt - info.startedAt - 120_000) < 5000, `${info.startedAt} ${info.endAt}`)
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 1)
  assert.equal(info.lifecycle.onTimeout, 'kill')
  assert.equal((await sandbox.commands.run('echo $FOO $E2B_SANDBOX')).stdout, 'bar true\n')
})

test('kill: once true, then false; and it is not to be found', async () => {
  const sandbox = await create()
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await Sandbox.kill('i00000000000000000000'), false)
  assert.equal(await sandbox.isRunning(), false)
  await rejects(Sandbox.getInfo(sandbox.sandboxId), SandboxNotFoundError)
  await rejects(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
  await rejects(sandbox.setTimeout(1000), SandboxNotFoundError)
  await rejects(sandbox.commands.run('true'), SandboxError)
  await rejects(sandbox.files.read('x'), TimeoutError)
})

test('setTimeout moves the end both ways; connect only back', async () => {
  const sandbox = await create({ timeoutMs: 60_000 })
  const end = async () => (await sandbox.getInfo()).endAt.getTime() - Date.now()
  await sandbox.setTimeout(600_000)
  assert.ok((await end()) > 590_000)
  await sandbox.connect({ timeoutMs: 30_000 })
  assert.ok((await end()) > 590_000, 'connect has moved the end forward')
  await sandbox.setTimeout(90_000)
  assert.ok((await end()) < 91_000 && (await end()) > 60_000)
  await sandbox.connect({ timeoutMs: 200_000 })
  assert.ok((await end()) > 190_000)
})

test('a sandbox ends when its time has come', async () => {
  const sandbox = await create({ timeoutMs: 60_000 })
  await sandbox.setTimeout(1000)
  await until('its end', async () => !(await sandbox.isRunning()))
  await rejects(Sandbox.getInfo(sandbox.sandboxId), SandboxNotFoundError)
})

test('list: filters, orders and pages', async () => {
  const group = `${mark}-list`
  const made = []
  for (let i = 0; i < 5; i++) made.push(await create({ metadata: { group, odd: String(i % 2), text: 'a b&c=d %41' } }))
  const ids = made.map((sandbox) => sandbox.sandboxId)
  const list = (query, more = {}) => all(Sandbox.list({ query: { metadata: { group }, ...query }, ...more }))
  assert.deepEqual((await list({})).map((s) => s.sandboxId), [...ids].reverse(), 'the newest first')
  assert.deepEqual((await list({}, { order: 'asc' })).map((s) => s.sandboxId), ids)
  assert.deepEqual((await list({}, { limit: 2, order: 'asc' })).map((s) => s.sandboxId), ids, 'in pages')
  const first = Sandbox.list({ query: { metadata: { group } }, limit: 2 })
  assert.equal((await first.nextItems()).length, 2)
  assert.equal(first.hasNext, true)
  assert.ok(first.nextToken)
  const odd = await list({ metadata: { group, odd: '1', text: 'a b&c=d %41' } })
  assert.deepEqual(odd.map((s) => s.sandboxId), [ids[3], ids[1]])
  assert.deepEqual(await list({ metadata: { group, odd: '2' } }), [])
  assert.equal((await list({ template: 'base' })).length, 5)
  assert.equal((await list({ template: 'no-such' })).length, 0)
  const third = await made[2].getInfo()
  const after = await list({ startedAfter: third.startedAt })
  assert.ok(after.some((s) => s.sandboxId === ids[2]) && after.some((s) => s.sandboxId === ids[4]))
  await made[0].pause()
  assert.deepEqual((await list({ state: ['paused'] })).map((s) => s.sandboxId), [ids[0]])
  assert.equal((await list({ state: ['running'] })).length, 4)
  assert.equal((await list({})).length, 5)
})

test('pause keeps processes and files; connect wakes', async () => {
  const sandbox = await create({ metadata: { mark } })
  await sandbox.files.write('kept', 'yes')
  const command = await sandbox.commands.run('x=7; read y; echo $x$y', { background: true, stdin: true, timeoutMs: 0 })
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.pause(), false, 'paused already')
  assert.equal(await sandbox.isRunning(), false)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  await rejects(sandbox.files.read('kept'), TimeoutError)
  const same = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(same.sandboxId, sandbox.sandboxId)
  assert.equal((await same.getInfo()).state, 'running')
  assert.equal((await same.getInfo()).metadata.mark, mark)
  assert.equal(await same.files.read('kept'), 'yes')
  assert.ok((await same.commands.list()).some((p) => p.pid === command.pid))
  const again = await same.commands.connect(command.pid)
  await same.commands.sendStdin(command.pid, '9\n')
  assert.equal((await again.wait()).stdout, '79\n')
})

test('pause without memory ends processes and keeps files', async () => {
  const sandbox = await create()
  await sandbox.files.write('kept', 'yes')
  await sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 })
  assert.equal(await sandbox.pause({ keepMemory: false }), true)
  await sandbox.connect()
  assert.deepEqual(await sandbox.commands.list(), [])
  assert.equal(await sandbox.files.read('kept'), 'yes')
})

test('autoPause: at its end a sandbox pauses, and connect wakes it', async () => {
  const sandbox = await create({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause' } })
  assert.equal((await sandbox.getInfo()).lifecycle.onTimeout, 'pause')
  await sandbox.setTimeout(1000)
  await until('the pause', async () => (await sandbox.getInfo()).state === 'paused')
  await sandbox.connect()
  assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
})

test('autoResume: a request wakes it', async () => {
  const sandbox = await create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.files.write('x', 'y')
  await sandbox.pause()
  assert.equal(await sandbox.files.read('x'), 'y')
  assert.equal((await sandbox.getInfo()).state, 'running')
})

test('fork: each has its own files from then on', async () => {
  const sandbox = await create({ metadata: { mark }, envs: { FOO: 'bar' } })
  await sandbox.files.write('x', 'before')
  const forks = await sandbox.fork({ count: 2 })
  assert.equal(forks.length, 2)
  for (const fork of forks) assert.ok(fork instanceof Sandbox, String(fork))
  keep(...forks)
  await forks[0].files.write('x', 'after')
  assert.equal(await sandbox.files.read('x'), 'before')
  assert.equal(await forks[1].files.read('x'), 'before')
  assert.equal((await forks[1].commands.run('echo $FOO')).stdout, 'bar\n')
  assert.notEqual(forks[0].sandboxId, forks[1].sandboxId)
  assert.equal(await sandbox.isRunning(), true)
})

test('snapshots: made, listed, started from, deleted', async () => {
  const sandbox = await create()
  await sandbox.files.write('x', 'in the snapshot')
  const name = `snap-${mark}`
  const named = await sandbox.createSnapshot({ name })
  const unnamed = await sandbox.createSnapshot()
  assert.match(named.snapshotId, new RegExp(`/${name}:default$`))
  const listed = await all(sandbox.listSnapshots())
  assert.deepEqual(new Set(listed.map((s) => s.snapshotId)), new Set([named.snapshotId, unnamed.snapshotId]))
  assert.equal((await all(Sandbox.listSnapshots({ name }))).length, 1)
  assert.equal((await all(Sandbox.listSnapshots({ name: 'no-such' }))).length, 0)
  await sandbox.files.write('x', 'later')
  await sandbox.kill()
  const copy = await create(named.snapshotId)
  assert.equal(await copy.files.read('x'), 'in the snapshot')
  assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), false)
  assert.equal(await Sandbox.deleteSnapshot(unnamed.snapshotId), true)
  await rejects(Sandbox.create(named.snapshotId), NotFoundError).catch(() => rejects(Sandbox.create(named.snapshotId), SandboxError))
})

test('metrics: a sample soon after the start', async () => {
  const sandbox = await create()
  const [sample] = await until('a sample', async () => {
    const samples = await sandbox.getMetrics()
    return samples.length ? samples : null
  })
  assert.ok(sample.timestamp instanceof Date)
  for (const key of ['cpuCount', 'cpuUsedPct', 'memUsed', 'memTotal', 'diskUsed', 'diskTotal'])
    assert.equal(typeof sample[key], 'number', key)
  assert.deepEqual(await sandbox.getMetrics({ start: new Date(0), end: new Date(1000) }), [])
})

test('secrets: create, list, update, use in a header rule, destroy; their values are never told', async () => {
  const name = `Key-${mark}`.toLowerCase()
  const made = await Secret.create(name, 'sk-0123456789', { metadata: { team: 'x' } })
  assert.equal(made.name, name)
  assert.equal(made.version, 1)
  assert.deepEqual(made.metadata, { team: 'x' })
  assert.equal((await Secret.update(name, 'sk-9876543210')).version, 2)
  assert.equal((await Secret.getInfo(made.secretId)).name, name)
  assert.ok((await all(Secret.list({ limit: 1 }))).some((one) => one.name === name && !JSON.stringify(one).includes('sk-')))
  const rule = (value) => ({ network: { rules: { 'example.org': [{ transform: { headers: { Authorization: value } } }] } } })
  const sandbox = await create(rule(`Bearer ${Secret.fill(name)}`))
  assert.ok(!(await sandbox.commands.run('env')).stdout.includes('sk-'))
  await rejects(Sandbox.create(rule(Secret.fill('nosuch'))), SandboxError, /nosuch/)
  assert.equal(await Secret.exists('nosuch'), false)
  await rejects(Secret.update('nosuch', 'x'), SecretNotFoundError)
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.destroy(name), false)
})

test('killing a sandbox breaks what is open to it', async () => {
  const sandbox = await create()
  const command = await sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 })
  const end = command.wait().then(() => null, (error) => error)
  await sandbox.kill()
  const error = await end
  assert.ok(error instanceof TimeoutError, `${error?.constructor?.name}: ${error?.message}`)
  assert.match(error.message, /killed|end of life/)
})

await main()
