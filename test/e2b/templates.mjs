// SPDX-License-Identifier: Apache-2.0
// Templates, built by E2B's own package.
import fs from 'node:fs'
import path from 'node:path'
import assert from 'node:assert/strict'
import { Sandbox, Template, BuildError, waitForFile } from 'e2b'
import { test, create, rejects, main } from './check.mjs'

const context = fs.mkdtempSync(path.join(process.env.HOME, 'context-'))
fs.writeFileSync(path.join(context, 'data.txt'), 'data\n')
fs.mkdirSync(path.join(context, 'dir/inner'), { recursive: true })
fs.writeFileSync(path.join(context, 'dir/a.txt'), 'a\n')
fs.writeFileSync(path.join(context, 'dir/inner/b.sh'), '#!/bin/sh\necho b\n', { mode: 0o755 })
const from = () => Template({ fileContextPath: context }).fromTemplate('base')

test('commands, files, environment, directory: what was built is what boxes begin with', async () => {
  const logs = []
  const template = from()
    .runCmd('echo built > /home/user/built.txt; echo said by a step')
    .copy('data.txt', '/home/user/copied.txt')
    .copy('dir', '/home/user/tree/')
    .setEnvs({ OF_TEMPLATE: 'env é', OTHER: '1' })
    .setWorkdir('/home/user/work')
    .runCmd('pwd > where.txt; echo "$OF_TEMPLATE" > env.txt')
  const built = await Template.build(template, 'first', { onBuildLogs: (entry) => logs.push(entry.message) })
  assert.equal(built.templateId, 'first')
  assert.ok(logs.includes('said by a step'), logs.join('\n'))
  const sandbox = await create('first', { envs: { OTHER: '2' } })
  assert.equal(await sandbox.files.read('built.txt'), 'built\n')
  assert.equal(await sandbox.files.read('copied.txt'), 'data\n')
  assert.equal(await sandbox.files.read('tree/a.txt'), 'a\n')
  assert.equal(await sandbox.files.read('work/where.txt'), '/home/user/work\n')
  assert.equal(await sandbox.files.read('work/env.txt'), 'env é\n')
  const { stdout } = await sandbox.commands.run('pwd; echo $OF_TEMPLATE $OTHER; /home/user/tree/inner/b.sh; stat -c %U /home/user/copied.txt')
  assert.equal(stdout, '/home/user/work\nenv é 2\nb\nuser\n')
})

test('it exists, has tags, and goes', async () => {
  assert.equal(await Template.exists('first'), true)
  assert.equal(await Template.exists('never-built'), false)
  await Template.assignTags('first', ['stable', 'v1'])
  assert.deepEqual((await Template.getTags('first')).map((t) => t.tag).sort(), ['default', 'stable', 'v1'])
  const sandbox = await create('first:stable')
  assert.equal(await sandbox.files.read('/home/user/built.txt'), 'built\n')
  await Template.removeTags('first', ['v1'])
  assert.deepEqual((await Template.getTags('first')).map((t) => t.tag).sort(), ['default', 'stable'])
  await rejects(Sandbox.create('first:v1'), Error, /404/)
})

test('one on top of another, with a tag in its name', async () => {
  const template = Template().fromTemplate('first').runCmd('cat env.txt; echo "$OF_TEMPLATE second" > second.txt')
  await Template.build(template, 'second:v2')
  const sandbox = await create('second:v2')
  assert.equal((await sandbox.commands.run('cat second.txt /home/user/built.txt')).stdout, 'env é second\nbuilt\n')
  await rejects(Sandbox.create('second'), Error, /404/)
})

test('a command of its own, and when it is ready', async () => {
  // In a place that templates do not keep: what the build has left must not be what says that a box is ready.
  const template = from().setStartCmd('sleep 0.3; echo $$ > /dev/shm/being; mv /dev/shm/being /dev/shm/started; exec sleep 1000',
    waitForFile('/dev/shm/started'))
  await Template.build(template, 'starting')
  const sandbox = await create('starting')
  const { stdout } = await sandbox.commands.run('kill -0 "$(cat /dev/shm/started)" && echo runs')
  assert.equal(stdout, 'runs\n')
})

test('what fails says where', async () => {
  await rejects(Template.build(from().runCmd('true').runCmd('echo bad >&2; exit 3'), 'failing'), BuildError, /exit 3/)
  await rejects(Template.build(Template().fromTemplate('no-such'), 'failing'), BuildError, /not found/)
  await rejects(Template.build(Template().fromImage('ubuntu:22.04').runCmd('true'), 'failing'), BuildError, /image 'ubuntu:22.04'/)
  await rejects(Template.build(from().setUser('nobody-there'), 'failing'), BuildError)
  await rejects(Template.build(from(), 'Not A Name'), Error, /name/)
  await rejects(Template.build(from(), 'base'), Error, /template of ours/)
  assert.equal(await Template.exists('failing'), false)
  const left = await Sandbox.list().nextItems()
  assert.equal(left.filter((s) => s.templateId === 'base').length, 0)
})

await main()
