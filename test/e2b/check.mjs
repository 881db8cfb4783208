// SPDX-License-Identifier: Apache-2.0
// What the scripts share: tests in order, one line each, and what is left is killed at the end.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

export { assert }
export * from 'e2b'

const tests = []
const made = []

export function test(name, run) {
  tests.push([name, run])
}

/** A sandbox that is killed when the script ends. */
export async function create(...args) {
  const sandbox = await Sandbox.create(...args)
  made.push(sandbox)
  return sandbox
}

export function keep(...sandboxes) {
  made.push(...sandboxes)
}

export async function rejects(promise, kind, text) {
  let error
  try {
    await promise
  } catch (caught) {
    error = caught
  }
  assert.ok(error, `nothing was thrown, where ${kind.name} is meant`)
  assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error?.message}, where ${kind.name} is meant`)
  if (text) assert.match(error.message, text)
  return error
}

/** Waits until the function has a result that is not empty. */
export async function until(what, look, seconds = 20) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const found = await look()
    if (found) return found
    assert.ok(Date.now() < end, `waited in vain for ${what}`)
    await new Promise((done) => setTimeout(done, 20))
  }
}

export async function main() {
  let failed = 0
  for (const [name, run] of tests) {
    try {
      await run()
      console.log(`ok ${name}`)
    } catch (error) {
      failed++
      console.log(`not ok ${name}`)
      console.log(String(error?.stack ?? error).replace(/^/gm, '# '))
    }
  }
  for (const sandbox of made) await sandbox.kill().catch(() => {})
  process.exit(failed ? 1 : 0)
}
