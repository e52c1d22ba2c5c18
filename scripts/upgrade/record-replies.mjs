// Records the replies of the control socket of a commit, for the tests of commands that meet an agent of another version:
//   node scripts/upgrade/record-replies.mjs COMMIT [DIST]
// writes test/support/control-replies/COMMIT.json, with the first 8 digits of the commit. DIST: the commit's dist/, if it is built already.
// As root: the agent runs in its own namespace, in iptables mode.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { npmBin } from '../setup.mjs'
import { must, read, root, runMain, StepError } from '../steps.mjs'
import { buildCommit, commitNamed } from './build.mjs'

const slice = (address) => ({
  kind: 'EndpointSlice',
  apiVersion: 'discovery.k8s.io/v1',
  metadata: { name: 'web-1', namespace: 'default', labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  endpoints: [
    { addresses: [address], conditions: { ready: true }, nodeName: 'node-a' },
    { addresses: ['192.0.2.2'], conditions: { ready: false }, nodeName: 'node-b' },
  ],
})

const service = (name, clusterIP, spec) => ({
  kind: 'Service',
  apiVersion: 'v1',
  metadata: { name, namespace: 'default' },
  spec: { clusterIP, ports: [{ name: 'http', port: 80, protocol: 'TCP' }], ...spec },
})

const objects = [
  service('web', '10.96.0.10', { externalIPs: ['203.0.113.1'] }),
  service('empty', '10.96.0.11', {}),
  service('rival', '10.96.0.12', { externalIPs: ['203.0.113.1'] }),
  // The agent reports a problem.
  service('wrong', '10.96.0.13', { externalIPs: ['no address'] }),
  slice('192.0.2.1'),
]

/** Stands in the replies for the folder of the recording, which has another name each time. */
const shownFolder = '/run/viaduct-replies'

const pages = [
  'status',
  'configuration',
  'services',
  'endpoints',
  'routes',
  'routes?service=default/web',
  'history',
  'connections',
  'explain?client=10.244.1.10&destination=10.96.0.10:80',
  'explain?client=node&destination=10.96.0.11:80/tcp',
  'tables/services',
]

/** The reply, or its code if that is not 200. @param {string} socket @param {string} target */
async function get(socket, target) {
  const connection = connect(socket)
  connection.write(`GET /v1/${target} HTTP/1.0\r\nHost: agent\r\n\r\n`)
  const chunks = []
  for await (const chunk of connection) chunks.push(chunk)
  const [head = '', ...body] = Buffer.concat(chunks).toString().split('\r\n\r\n')
  const code = Number(head.split(' ')[1])
  const api = /^viaduct-control-api: *(\d+)/im.exec(head)?.[1]
  return { code, ...(api === undefined ? {} : { api: Number(api) }), body: body.join('\r\n\r\n') }
}

/** In a network namespace of this process alone. @param {string} commit @param {string} dist @param {string} folder */
async function recordIn(commit, dist, folder) {
  for (const words of ['link set lo up', 'address add 192.0.2.1/32 dev lo', 'route add 10.96.0.0/24 dev lo'])
    await must(['ip', ...words.split(' ')])
  const socket = join(folder, 'viaduct.sock')
  writeFileSync(
    join(folder, 'objects.json'),
    JSON.stringify({ kind: 'List', apiVersion: 'v1', items: objects }),
  )
  const flags = ['--proxy-mode=iptables', `--manifests=${folder}`, '--hostname-override=node-a', '-v=4']
  const agent = spawn(process.execPath, [join(dist, 'agent.js'), ...flags, `--control-socket=${socket}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const server = createServer().listen(8080, '192.0.2.1')
  try {
    let log = ''
    for await (const chunk of agent.stdout) {
      log += chunk
      if (/Control socket listens/.test(log) && (log.match(/Sync done/g) ?? []).length > 1) break
    }
    const client = connect({ port: 80, host: '10.96.0.10' })
    await once(client, 'connect')
    const replies = {}
    for (const page of pages) replies[page] = await get(socket, page)
    client.destroy()
    const file = join(root, 'test/support/control-replies', `${commit.slice(0, 8)}.json`)
    const date = await read(['git', 'show', '-s', '--format=%cs', commit])
    writeFileSync(file, JSON.stringify({ commit, date, replies }).replaceAll(folder, shownFolder))
    await must([process.execPath, npmBin('prettier'), '--write', file])
    console.log(file)
  } finally {
    server.close()
    agent.kill()
  }
}

async function main() {
  const [name, built] = process.argv.slice(2)
  if (name === undefined) throw new StepError('usage: record-replies.mjs COMMIT [DIST]')
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-replies-'))
  try {
    const commit = await commitNamed(name)
    if (process.env.VIADUCT_RECORDS_HERE === 'true') return await recordIn(commit, built, folder)
    const dist = built ?? (await buildCommit(commit, join(folder, 'tree')))
    const inside = ['unshare', '--net', '--mount', process.execPath, process.argv[1], commit, dist]
    console.log((await must(inside, { env: { VIADUCT_RECORDS_HERE: 'true' }, timeoutSeconds: 60 })).trim())
  } finally {
    rmSync(folder, { recursive: true })
  }
}

await runMain(main)
