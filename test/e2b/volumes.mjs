// SPDX-License-Identifier: Apache-2.0
// Volumes: made, filled and read by themselves, and mounted into sandboxes that share them.
import { assert, test, create, rejects, main, Volume, SandboxError, VolumeError } from './check.mjs'

let volume

test('a volume is made, filled and read', async () => {
  volume = await Volume.create('shared')
  await volume.writeFile('/greeting', 'hello\n')
  assert.equal(await volume.readFile('/greeting'), 'hello\n')
  assert.deepEqual((await Volume.list()).map((one) => one.name), ['shared'])
})

test('two sandboxes share it, whatever it is called in them', async () => {
  const one = await create({ volumeMounts: { '/mnt/data': volume } })
  const two = await create({ volumeMounts: { '/data': 'shared' } })
  assert.equal((await one.commands.run('cat /mnt/data/greeting; id -un; stat -c %U /mnt/data/greeting')).stdout, 'hello\nuser\nuser\n')
  await one.commands.run('mkdir /mnt/data/d && echo one >/mnt/data/d/x')
  assert.equal(await two.files.read('/data/d/x'), 'one\n')
  await two.files.write('/data/d/y', 'two\n')
  assert.equal((await one.commands.run('cat /mnt/data/d/y')).stdout, 'two\n')
  assert.equal(await volume.readFile('/d/y'), 'two\n')
  await two.commands.run('echo root >/data/root', { user: 'root' })
  assert.equal((await one.commands.run('cat /mnt/data/root; echo more >>/mnt/data/root')).stdout, 'root\n')
  assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: 'shared', path: '/mnt/data' }])
  await rejects(Volume.destroy(volume.volumeId), VolumeError)
  await one.kill()
  await two.kill()
})

test('what it holds outlives them; a sandbox with a volume that is not there is refused', async () => {
  assert.equal(await volume.readFile('/d/x'), 'one\n')
  assert.equal(await volume.readFile('/root'), 'root\nmore\n')
  await rejects(create({ volumeMounts: { '/data': 'nobody-made-it' } }), SandboxError, /volume/)
  await rejects(create({ volumeMounts: { '/proc': volume } }), SandboxError, /proc/)
  assert.equal(await Volume.destroy(volume.volumeId), true)
  assert.equal(await Volume.destroy(volume.volumeId), false)
})

await main()
