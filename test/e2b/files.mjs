// SPDX-License-Identifier: Apache-2.0
// sandbox.files.*, and signed URLs.
import { assert, test, create, rejects, until, main, FileNotFoundError, InvalidArgumentError, SandboxError, AuthenticationError,
  FileType, FilesystemEventType } from './check.mjs'

const sandbox = await create()
const files = sandbox.files

test('write and read one file in every form', async () => {
  const { name, path, type, metadata } = await files.write('a.txt', 'hello wörld')
  assert.deepEqual({ name, path, type, metadata }, { name: 'a.txt', path: '/home/user/a.txt', type: 'file', metadata: undefined })
  assert.equal(await files.read('a.txt'), 'hello wörld')
  assert.equal(await files.read('/home/user/a.txt', { format: 'text' }), 'hello wörld')
  assert.equal(await files.read('~/a.txt'), 'hello wörld')
  assert.deepEqual(await files.read('a.txt', { format: 'bytes' }), new TextEncoder().encode('hello wörld'))
  assert.equal(await (await files.read('a.txt', { format: 'blob' })).text(), 'hello wörld')
  let text = ''
  for await (const piece of await files.read('a.txt', { format: 'stream' })) text += new TextDecoder().decode(piece)
  assert.equal(text, 'hello wörld')
})

test('write takes buffers, blobs and streams', async () => {
  await files.write('b1', new Uint8Array([0, 255, 10, 13]).buffer)
  assert.deepEqual([...(await files.read('b1', { format: 'bytes' }))], [0, 255, 10, 13])
  await files.write('b2', new Blob(['blob']))
  assert.equal(await files.read('b2'), 'blob')
  const stream = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 100; i++) controller.enqueue(new TextEncoder().encode(`line ${i}\n`))
      controller.close()
    },
  })
  await files.write('b3', stream)
  assert.equal((await files.read('b3')).split('\n').length, 101)
  await files.write('b4', 'packed '.repeat(10000), { gzip: true, useOctetStream: true })
  assert.equal(await files.read('b4'), 'packed '.repeat(10000))
  await files.write('b5', 'octets', { useOctetStream: true })
  assert.equal(await files.read('b5'), 'octets')
})

test('an empty file, a large file, and what is written over', async () => {
  await files.write('empty', '')
  assert.equal(await files.read('empty'), '')
  const large = new Uint8Array(5_000_000).map((_, i) => (i * 7) % 251)
  await files.write('large', large.buffer)
  const back = await files.read('large', { format: 'bytes' })
  assert.equal(Buffer.compare(Buffer.from(back), Buffer.from(large)), 0)
  await files.write('large', 'small')
  assert.equal(await files.read('large'), 'small')
})

test('several files at once, with directories that are not there', async () => {
  const written = await files.write([{ path: 'd/x 1.txt', data: 'one' }, { path: '/home/user/d/e/"y".txt', data: new Blob(['two']) },
    { path: 'd/ü.txt', data: 'three' }])
  assert.deepEqual(written.map((w) => w.path), ['/home/user/d/x 1.txt', '/home/user/d/e/"y".txt', '/home/user/d/ü.txt'])
  assert.equal(await files.read('d/e/"y".txt'), 'two')
  assert.equal(await files.read('d/ü.txt'), 'three')
  assert.deepEqual(await files.write([]), [])
  assert.equal((await files.writeFiles([{ path: 'w', data: 'w' }])).length, 1)
})

test('what is not there, is a directory, or nobody may read', async () => {
  const missing = await rejects(files.read('nope'), FileNotFoundError)
  assert.match(missing.message, /\/home\/user\/nope/)
  await files.makeDir('dir')
  await rejects(files.read('dir'), InvalidArgumentError, /directory/)
  await rejects(files.write('dir', 'x'), InvalidArgumentError)
  await rejects(files.read('x', { user: 'nobody-here' }), AuthenticationError)
  await rejects(files.getInfo('x', { user: 'nobody-here' }), AuthenticationError)
  await rejects(files.read('~other/x'), InvalidArgumentError)
})

test('getInfo and exists', async () => {
  await files.write('info.txt', '12345')
  const info = await files.getInfo('info.txt')
  assert.equal(info.name, 'info.txt')
  assert.equal(info.type, FileType.FILE)
  assert.equal(info.path, '/home/user/info.txt')
  assert.equal(info.size, 5)
  assert.equal(info.mode, 0o644)
  assert.equal(info.permissions, '-rw-r--r--')
  assert.equal(info.owner, 'user')
  assert.equal(info.group, 'user')
  assert.ok(Math.abs(info.modifiedTime - Date.now()) < 60_000)
  assert.equal(await files.exists('info.txt'), true)
  assert.equal(await files.exists('nope'), false)
  await rejects(files.getInfo('nope'), FileNotFoundError)
})

test('links are told with what they lead to', async () => {
  await sandbox.commands.run('mkdir -p ln/d; echo x >ln/f; ln -s f ln/to-f; ln -s d ln/to-d; ln -s nowhere ln/lost; ln -s loop ln/loop')
  const to = await files.getInfo('ln/to-f')
  assert.equal(to.type, FileType.FILE)
  assert.equal(to.symlinkTarget, '/home/user/ln/f')
  assert.equal(to.permissions[0], 'L')
  assert.equal((await files.getInfo('ln/to-d')).type, FileType.DIR)
  assert.deepEqual((await files.list('ln')).map((e) => e.name), ['d', 'f', 'to-d', 'to-f'])
})

test('list: order, depth, and what cannot be listed', async () => {
  await files.write([{ path: 'l/b/2', data: '' }, { path: 'l/b/1', data: '' }, { path: 'l/a', data: '' }, { path: 'l/c/d/e', data: '' }])
  assert.deepEqual((await files.list('l')).map((e) => e.name), ['a', 'b', 'c'])
  assert.deepEqual((await files.list('l', { depth: 2 })).map((e) => e.path.slice(13)), ['a', 'b', 'b/1', 'b/2', 'c', 'c/d'])
  assert.deepEqual((await files.list('l', { depth: 9 })).map((e) => e.path.slice(13)), ['a', 'b', 'b/1', 'b/2', 'c', 'c/d', 'c/d/e'])
  await rejects(files.list('nope'), FileNotFoundError)
  await rejects(files.list('l/a'), InvalidArgumentError)
  await rejects(files.list('l', { depth: 0 }), InvalidArgumentError)
})

test('makeDir, rename, remove', async () => {
  assert.equal(await files.makeDir('m/n/o'), true)
  assert.equal(await files.makeDir('m/n/o'), false)
  await files.write('m/f', 'x')
  await rejects(files.makeDir('m/f'), InvalidArgumentError)
  const moved = await files.rename('m/f', 'elsewhere/f')
  assert.equal(moved.path, '/home/user/elsewhere/f')
  assert.equal(await files.exists('m/f'), false)
  await rejects(files.rename('nope', 'x'), FileNotFoundError)
  await files.remove('m')
  assert.equal(await files.exists('m'), false)
  await files.remove('m')
})

test('as root, outside of the home', async () => {
  const written = await files.write('/opt/deep/er/x', 'by root', { user: 'root' })
  assert.equal(written.path, '/opt/deep/er/x')
  const info = await files.getInfo('/opt/deep/er/x', { user: 'root' })
  assert.equal(info.owner, (await sandbox.commands.run('id -un', { user: 'root' })).stdout.trim())
  assert.equal((await sandbox.commands.run('cat /opt/deep/er/x')).stdout, 'by root')
  assert.equal(await files.read('/proc/sys/kernel/ostype'), 'Linux\n', 'what has no size')
})

test('metadata', async () => {
  const written = await files.write('meta', 'x', { metadata: { author: 'me', Kind: 'Test' } })
  const info = await files.getInfo('meta')
  if (written.metadata) {
    assert.deepEqual(written.metadata, { author: 'me', kind: 'Test' })
    assert.deepEqual(info.metadata, { author: 'me', kind: 'Test' })
    await files.write('meta', 'y')
    assert.equal((await files.getInfo('meta')).metadata, undefined)
  }
})

async function watched(options, act, seen) {
  const events = []
  const handle = await files.watchDir('watched', (event) => { events.push(event) }, { timeoutMs: 0, ...options })
  try {
    await act()
    await until('events: ' + JSON.stringify(events), () => seen(events))
  } finally {
    await handle.stop()
  }
  return events
}

test('watchDir tells what changes', async () => {
  await files.makeDir('watched')
  const has = (events, name, type) => events.some((e) => e.name === name && e.type === type)
  await watched({ includeEntry: true }, () => files.write('watched/new', 'x'), (events) =>
    has(events, 'new', FilesystemEventType.CREATE) && has(events, 'new', FilesystemEventType.WRITE) &&
    events.some((e) => e.entry?.path === '/home/user/watched/new'))
  await watched({}, () => files.rename('watched/new', 'watched/other'), (events) =>
    has(events, 'new', FilesystemEventType.RENAME) && has(events, 'other', FilesystemEventType.CREATE))
  await watched({}, () => sandbox.commands.run('chmod 600 watched/other'), (events) => has(events, 'other', FilesystemEventType.CHMOD))
  await watched({}, () => files.remove('watched/other'), (events) => has(events, 'other', FilesystemEventType.REMOVE))
})

test('watchDir with all below, also what comes later', async () => {
  const has = (events, name) => events.some((e) => e.name === name)
  await watched({ recursive: true }, async () => {
    await files.makeDir('watched/deep')
    await files.write('watched/deep/er/file', 'x')
  }, (events) => has(events, 'deep') && has(events, 'deep/er/file'))
  await rejects(files.watchDir('nope', () => {}), FileNotFoundError)
  await rejects(files.watchDir('a.txt', () => {}), InvalidArgumentError)
})

test('signed URLs, for reading and for writing', async () => {
  await files.write('signed.txt', 'signed')
  const url = await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: 600 })
  assert.equal(await (await fetch(url)).text(), 'signed')
  const form = new FormData()
  form.append('file', 'uploaded')
  const up = await fetch(await sandbox.uploadUrl('up.txt'), { method: 'POST', body: form })
  assert.equal(up.status, 200, await up.clone().text())
  assert.deepEqual(await up.json(), [{ path: '/home/user/up.txt', name: 'up.txt', type: 'file' }])
  assert.equal(await files.read('up.txt'), 'uploaded')
  const part = await fetch(url, { headers: { Range: 'bytes=2-3' } })
  assert.equal(part.status, 206)
  assert.equal(await part.text(), 'gn')
  const bad = await fetch(url.replace('signed.txt', 'a.txt'))
  assert.equal(bad.status, 401)
  assert.deepEqual(await bad.json(), { code: 401, message: 'invalid signature' })
  const root = await sandbox.downloadUrl('/home/user/signed.txt', { user: 'root' })
  assert.equal(await (await fetch(root)).text(), 'signed')
})

await main()
