// SPDX-License-Identifier: Apache-2.0
// The code interpreter, by E2B's own package for it.
import assert from 'node:assert/strict'
import { Sandbox, NotFoundError, TimeoutError, SandboxError, InvalidArgumentError } from '@e2b/code-interpreter'
import { test, keep, rejects, until, main } from './check.mjs'

const sandbox = await Sandbox.create({ timeoutMs: 120_000, envs: { OF_BOX: 'of the box' } })
keep(sandbox)

test('a value, what is printed, and the count', async () => {
  const first = await sandbox.runCode('x = 1; print("hi é"); x')
  assert.deepEqual(first.logs, { stdout: ['hi é\n'], stderr: [] })
  assert.equal(first.text, '1')
  assert.equal(first.executionCount, 1)
  assert.equal(first.error, undefined)
  const second = await sandbox.runCode('x += 1\nx')
  assert.deepEqual([second.text, second.executionCount], ['2', 2])
})

test('an error has a name, a value and a traceback', async () => {
  const { error } = await sandbox.runCode('y')
  assert.equal(error.name, 'NameError')
  assert.equal(error.value, "name 'y' is not defined")
  assert.match(error.traceback, /Cell In\[\d+\], line 1/)
})

test('callbacks hear of things as they come', async () => {
  const heard = []
  const execution = await sandbox.runCode(
    'import time, sys\nfor i in range(3):\n  print(i, flush=True)\n  time.sleep(0.1)\nprint("e", file=sys.stderr)\n7',
    {
      onStdout: (m) => heard.push(['out', m.line]), onStderr: (m) => heard.push(['err', m.line]),
      onResult: (r) => heard.push(['result', r.text]),
    })
  assert.deepEqual(heard, [['out', '0\n'], ['out', '1\n'], ['out', '2\n'], ['err', 'e\n'], ['result', '7']])
  assert.equal(execution.text, '7')
  let failed
  await sandbox.runCode('1/0', { onError: (error) => { failed = error.name } })
  assert.equal(failed, 'ZeroDivisionError')
})

test('forms of results', async () => {
  const { results } = await sandbox.runCode(
    'class A:\n  def _repr_html_(self): return "<b>"\n  def _repr_png_(self): return b"png"\n' +
    '  def _repr_mimebundle_(self, **k): return {"application/x-own": 1}\ndisplay(A())\nA()')
  assert.deepEqual(results.map((r) => r.isMainResult), [false, true])
  assert.equal(results[0].html, '<b>')
  assert.equal(results[0].png, Buffer.from('png').toString('base64'))
  assert.deepEqual(results[0].formats().sort(), ['application/x-own', 'html', 'png'])
})

test('environment: the box\'s, and one execution\'s', async () => {
  const code = 'import os\n[os.environ.get(n) for n in ("OF_BOX", "OWN", "E2B_SANDBOX")]'
  assert.equal((await sandbox.runCode(code, { envs: { OWN: 'own', OF_BOX: 'other' } })).text, "['other', 'own', 'true']")
  assert.equal((await sandbox.runCode(code)).text, "['of the box', None, 'true']")
})

test('files and commands share the box with code', async () => {
  await sandbox.files.write('data.txt', 'from outside')
  assert.equal((await sandbox.runCode('open("data.txt").read()')).text, 'from outside')
  await sandbox.runCode('open("made.txt", "w").write("from code")')
  assert.equal(await sandbox.files.read('made.txt'), 'from code')
  assert.equal((await sandbox.runCode('!pwd; id -un')).logs.stdout.join(''), '/home/user\nuser\n')
  assert.deepEqual(await sandbox.commands.list(), [])
})

test('languages', async () => {
  assert.equal((await sandbox.runCode('const a = 1; console.log("js"); a + 1', { language: 'js' })).text, '2')
  assert.equal((await sandbox.runCode('await Promise.resolve(a)', { language: 'javascript' })).text, '1')
  await sandbox.runCode('X=5', { language: 'bash' })
  assert.deepEqual((await sandbox.runCode('echo $X', { language: 'bash' })).logs.stdout, ['5\n'])
  await rejects(sandbox.runCode('1', { language: 'r' }), SandboxError, /400/)
})

test('contexts', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
  await sandbox.runCode('z = 1', { context })
  assert.equal((await sandbox.runCode('import os\nos.getcwd(), z', { context })).text, "('/tmp', 1)")
  assert.equal((await sandbox.runCode('z')).error.name, 'NameError')
  assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.language).slice(0, 2), ['python', 'javascript'])
  assert.ok((await sandbox.listCodeContexts()).some((c) => c.id === context.id))
  await sandbox.restartCodeContext(context)
  const again = await sandbox.runCode('z', { context })
  assert.deepEqual([again.error.name, again.executionCount], ['NameError', 1])
  await sandbox.removeCodeContext(context)
  assert.ok(!(await sandbox.listCodeContexts()).some((c) => c.id === context.id))
  await rejects(sandbox.runCode('1', { context }), NotFoundError, /Context .* not found/)
  await rejects(sandbox.restartCodeContext(context), NotFoundError)
  await rejects(sandbox.removeCodeContext('nothing'), NotFoundError)
  await rejects(sandbox.createCodeContext({ cwd: '/no/such/place' }), SandboxError)
  await rejects(sandbox.runCode('1', { context, language: 'python' }), InvalidArgumentError)
})

test('the usual context can be removed, and is there again', async () => {
  await sandbox.runCode('gone = 1')
  await sandbox.removeCodeContext('python')
  const { error, executionCount } = await sandbox.runCode('gone')
  assert.deepEqual([error.name, executionCount], ['NameError', 1])
})

test('executions of one context wait for each other, those of others do not', async () => {
  const other = await sandbox.createCodeContext()
  const order = []
  const slow = sandbox.runCode('import os, time\nwhile not os.path.exists("/tmp/go"): time.sleep(0.01)\nt = "slow"').then(() => order.push('slow'))
  const next = sandbox.runCode('t').then((e) => order.push(`next after ${e.text}`))
  await sandbox.runCode('1', { context: other }).then(() => order.push('other'))
  await sandbox.files.write('/tmp/go', '')
  await Promise.all([slow, next])
  assert.deepEqual(order, ['other', 'slow', 'next after slow'])
  await sandbox.removeCodeContext(other)
})

test('who goes away interrupts', async () => {
  await sandbox.runCode('kept = 7')
  await rejects(sandbox.runCode('import time\nwhile True: time.sleep(1)', { timeoutMs: 500 }), TimeoutError)
  assert.equal((await sandbox.runCode('kept')).text, '7')
})

test('a kernel that dies is told, and there is another', async () => {
  const { error } = await sandbox.runCode('import os; os._exit(3)')
  assert.equal(error.name, 'KernelDied')
  const killed = await sandbox.runCode('import os\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(100)')
  assert.equal(killed.error.name, 'KernelDied')
  assert.equal((await sandbox.runCode('1')).text, '1')
})

test('much output, and lines of any kind', async () => {
  const { logs } = await sandbox.runCode('for i in range(30000): print("é" * 100)')
  assert.equal(logs.stdout.join('').length, 30000 * 101)
  const { text } = await sandbox.runCode('"a\\u2028b\\U0001f600"')
  assert.equal(text, 'a\\u2028b😀')
})

test('a box that is killed ends what runs in it', async () => {
  const mine = await Sandbox.create({ timeoutMs: 60_000 })
  keep(mine)
  let began
  const started = new Promise((done) => { began = done })
  const running = mine.runCode('import time\nprint("go", flush=True)\nwhile True: time.sleep(1)', { onStdout: () => began() })
  running.catch(() => {})
  await started
  await mine.kill()
  await rejects(running, TimeoutError)
  await rejects(mine.runCode('1'), TimeoutError)
})

test('a pause keeps what code has set', async () => {
  await sandbox.runCode('before = 41')
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  await sandbox.runCode('own = 5', { context })
  await sandbox.pause()
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.runCode('before + 1')).text, '42')
  assert.equal((await again.runCode('own', { context })).text, '5')
})

await main()
