// SPDX-License-Identifier: Apache-2.0
// sandbox.commands.* and sandbox.pty.*.
import { assert, test, create, rejects, until, main, CommandExitError, InvalidArgumentError, NotFoundError, AuthenticationError,
  TimeoutError, SandboxError } from './check.mjs'

const sandbox = await create({ envs: { EVERYWHERE: 'here' } })
const commands = sandbox.commands

test('run: output, errors and the exit code', async () => {
  const result = await commands.run('echo hi; echo err >&2')
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [0, 'hi\n', 'err\n'])
  const error = await rejects(commands.run('echo out; echo err >&2; exit 3'), CommandExitError)
  assert.deepEqual([error.exitCode, error.stdout, error.stderr, error.error], [3, 'out\n', 'err\n', 'exit status 3'])
  assert.equal((await commands.run('printf "ä\\n%.0s" $(seq 1000)')).stdout, 'ä\n'.repeat(1000))
})

test('run: variables, directory, user', async () => {
  assert.equal((await commands.run('echo $A $EVERYWHERE', { envs: { A: '1 2' } })).stdout, '1 2 here\n')
  assert.equal((await commands.run('echo $EVERYWHERE', { envs: { EVERYWHERE: 'there' } })).stdout, 'there\n')
  assert.equal((await commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  assert.equal((await commands.run('pwd; whoami; echo $HOME $USER $LOGNAME')).stdout, '/home/user\nuser\n/home/user user user\n')
  // A daemon of an ordinary user's has one id for both, where the machine gives it no others.
  assert.match((await commands.run('whoami; echo $HOME; id -u', { user: 'root' })).stdout, /^(root\n\/root\n0|user\n\/root\n1000)\n$/)
  await rejects(commands.run('true', { cwd: '/nope' }), InvalidArgumentError, /cwd '\/nope' does not exist/)
  await rejects(commands.run('true', { user: 'nobody-here' }), AuthenticationError, /nobody-here/)
})

test('output comes while the command runs', async () => {
  const pieces = []
  const command = await commands.run('echo first; read x; echo second >&2; echo $x', {
    background: true, stdin: true, onStdout: (d) => { pieces.push(['out', d]) }, onStderr: (d) => { pieces.push(['err', d]) } })
  await until('the first line', () => pieces.length > 0)
  assert.deepEqual(pieces, [['out', 'first\n']])
  await commands.sendStdin(command.pid, 'third\n')
  const result = await command.wait()
  assert.equal(result.stdout, 'first\nthird\n')
  assert.equal(result.stderr, 'second\n')
})

test('pids are those inside', async () => {
  const command = await commands.run('echo $$; read x', { background: true, stdin: true })
  await until('its pid', () => command.stdout)
  assert.equal(command.stdout, `${command.pid}\n`)
  assert.equal((await commands.run(`kill -0 ${command.pid} && echo alive`)).stdout, 'alive\n')
  await command.kill()
})

test('list, kill and connect', async () => {
  const command = await commands.run('cat', { background: true, stdin: true, envs: { MINE: '1' }, cwd: '/tmp' })
  const listed = (await commands.list()).find((p) => p.pid === command.pid)
  assert.equal(listed.cmd, '/bin/bash')
  assert.deepEqual(listed.args, ['-l', '-c', 'cat'])
  assert.equal(listed.envs.MINE, '1')
  assert.equal(listed.cwd, '/tmp')
  const other = await commands.connect(command.pid)
  await commands.sendStdin(command.pid, 'for both\n')
  await until('both', () => command.stdout === 'for both\n' && other.stdout === 'for both\n')
  assert.equal(await commands.kill(command.pid), true)
  const error = await rejects(command.wait(), CommandExitError)
  assert.equal(error.error, 'signal: killed')
  await rejects(other.wait(), CommandExitError)
  assert.equal(await commands.kill(command.pid), false)
  assert.equal(await commands.kill(999999), false)
  await rejects(commands.connect(999999), NotFoundError)
  assert.ok(!(await commands.list()).some((p) => p.pid === command.pid))
})

test('a command outlives its connection', async () => {
  const command = await commands.run('read x; echo got $x; exit 5', { background: true, stdin: true, timeoutMs: 0 })
  await command.disconnect()
  const again = await commands.connect(command.pid)
  await commands.sendStdin(command.pid, 'it\n')
  const error = await rejects(again.wait(), CommandExitError)
  assert.deepEqual([error.exitCode, error.stdout], [5, 'got it\n'])
  const late = await commands.connect(command.pid)
  assert.equal((await rejects(late.wait(), CommandExitError)).exitCode, 5, 'its end is kept for a while')
})

test('standard input: closed, not there, too late', async () => {
  const cat = await commands.run('cat; echo end', { background: true, stdin: true })
  await commands.sendStdin(cat.pid, 'x'.repeat(200_000))
  await commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout.length, 200_004)
  assert.equal((await commands.run('cat; echo end')).stdout, 'end\n')
  const none = await commands.run('sleep 600', { background: true })
  await rejects(commands.sendStdin(none.pid, 'x'), SandboxError)
  await none.kill()
  await rejects(commands.sendStdin(999999, 'x'), NotFoundError)
})

test('a time-out ends the stream and the process', async () => {
  await rejects(commands.run('echo $$ >pid; exec sleep 600', { timeoutMs: 1500 }), TimeoutError)
  const pid = (await sandbox.files.read('pid')).trim()
  await until('its end', async () => (await commands.run(`kill -0 ${pid} 2>/dev/null || echo gone`)).stdout === 'gone\n')
})

test('the end waits for whoever has the pipes, but not after a kill', async () => {
  const result = await commands.run('(sleep 0.3; echo late) & echo now')
  assert.equal(result.stdout, 'now\nlate\n')
  const command = await commands.run('sleep 600 & wait', { background: true })
  await command.kill()
  await rejects(command.wait(), CommandExitError)
})

test('much output, from many at a time', async () => {
  const result = await commands.run('head -c 3000000 /dev/zero | tr "\\0" x; head -c 100000 /dev/zero | tr "\\0" y >&2')
  assert.equal(result.stdout.length, 3_000_000)
  assert.equal(result.stderr.length, 100_000)
  const many = await Promise.all(Array.from({ length: 20 }, (_, i) => commands.run(`echo ${i}; seq 1000 | tail -1`)))
  assert.deepEqual(many.map((r) => r.stdout), Array.from({ length: 20 }, (_, i) => `${i}\n1000\n`))
})

test('a terminal: its size, its input, its end', async () => {
  let text = ''
  const decoder = new TextDecoder()
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (d) => { text += decoder.decode(d, { stream: true }) }, envs: { T: '1' },
    cwd: '/tmp' })
  const type = (line) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(line + '\n'))
  await type('echo "<$(tput cols)x$(tput lines)>" $TERM $T; pwd')
  await until('its size: ' + JSON.stringify(text), () => text.includes('<80x24> xterm-256color 1') && /\n\/tmp\r?\n/.test(text))
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await type('echo "<$(tput cols)x$(tput lines)>"')
  await until('its new size', () => text.includes('<100x30>'))
  const other = await sandbox.pty.connect(terminal.pid, { onData: () => {} })
  await type('exit 4')
  const error = await rejects(terminal.wait(), CommandExitError)
  assert.equal(error.exitCode, 4)
  await rejects(other.wait(), CommandExitError)
  const killed = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
  assert.equal(await sandbox.pty.kill(killed.pid), true)
  await rejects(killed.wait(), SandboxError)
  assert.equal(await sandbox.pty.kill(killed.pid), false)
})

await main()
