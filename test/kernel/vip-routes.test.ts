// Ownership of routes in the local table, on this machine's kernel, with routes and sets that tools made (issue 18, A1).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

const families = [
  { ip: '-4', set: 'KUBE-IPVS-IPS', family: 'inet', vip: '10.96.0.', length: 32 },
  { ip: '-6', set: 'KUBE-6-IPVS-IPS', family: 'inet6', vip: 'fd00:10:96::', length: 128 },
] as const

let node: Namespace

beforeEach(async () => {
  node = await Namespace.create('node')
  await node.ip('link add eth9 type veth peer name eth8', 'link set eth9 up', 'link set eth8 up')
})

afterEach(async () => await node.close())

describe('--cleanup', { timeout: 60_000 }, () => {
  for (const { ip, set, family, vip, length } of families) {
    it(`removes the routes of VIPs and leaves foreign ones, ip ${ip}`, async () => {
      const routes = async (): Promise<readonly string[]> => {
        const text = await node.must('ip', ip, 'route', 'show', 'table', 'local')
        return text.split('\n').filter((line) => line.includes(`local ${vip}`))
      }
      const add = async (host: number, rest: string): Promise<void> => {
        const words = `route add local ${vip}${host}/${length} table local ${rest}`.split(' ')
        await node.must('ip', ip, ...words)
      }
      await node.must('ipset', 'create', set, 'hash:ip', 'family', family)
      for (const host of [11, 12, 13, 14]) await node.must('ipset', 'add', set, `${vip}${host}`)
      // The guest agent of Google Cloud: ip route add to local $IP/32 dev eth0 proto 66.
      await add(11, 'dev eth9 proto 66')
      await add(12, 'dev eth9 proto 173')
      await add(13, 'dev lo proto 173 metric 7')
      await add(15, 'dev lo proto 173')
      await add(16, 'dev lo proto 66')
      const foreign = await routes()
      assert.equal(foreign.length, 5)
      await add(14, 'dev lo proto 173')
      await node.must('ipset', 'add', set, `${vip}17`)
      await add(17, 'dev lo proto 66')
      const { code, stdout, stderr } = await node.run(process.execPath, agentFile, '--cleanup')
      assert.deepEqual(await routes(), foreign)
      assert.match(stdout, /, 2 VIP routes.*, 1 sets/u)
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
    })
  }
})
