// Ports of tests that must stay closed. health-check-servers.test.ts failed once in a loaded run: a port that it had left was open. The
// kernel may give the ports that freePort() returned then to any other program.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { freePort } from '../../support/http.js'

const inOtherProcess = `
const { freePort } = await import(${JSON.stringify(new URL('../../support/http.js', import.meta.url).href)})
console.log(await freePort())
`

it('is never one that the kernel gives to a program that asks for any port', async () => {
  const range = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/u)
  const [first = 0, last = 0] = range.map(Number)
  const port = await freePort()
  assert.ok(port < first || port > last, `${port} is not in ${first} to ${last}`)
})

it('is never the same again, in this process and in another one', async () => {
  const ports = [await freePort(), ...(await Promise.all([freePort(), freePort()]))]
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    inOtherProcess,
  ])
  ports.push(Number(stdout))
  assert.equal(new Set(ports).size, ports.length, ports.join(' '))
})
