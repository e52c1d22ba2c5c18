// The sentences of `viaduct hand-over` about kernels and processes that cannot have the copy.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { adviceOnHandOver, handOver } from '../../../src/agent/testing.js'
import { NfElements, type NfOp } from '../../../src/kernel/index.js'
import { copyTable } from '../../../src/layers/nft-table/index.js'
import { schemaOf } from '../../../src/layers/nft-table/testing.js'
import { openModelKernel, type ModelKernel } from '../../model/index.js'
import { ManualClock } from '../../support/manual-clock.js'

const { EEXIST, EINVAL, EOPNOTSUPP, EPERM } = constants.errno
const { table, clusterIPs } = schemaOf('ipv4')

/** A node whose table has one cluster IP. */
async function nodeWithTable(): Promise<ModelKernel> {
  const kernel = openModelKernel()
  const elements = new NfElements(clusterIPs).add(new Uint8Array([10, 96, 0, 10]))
  const { failures } = await kernel.nftables.apply([
    { op: 'create-table', table },
    { op: 'add-set', set: clusterIPs },
    { op: 'add-elements', elements },
  ])
  assert.deepEqual(failures, [])
  return kernel
}

function needsOwner(op: NfOp): boolean {
  return op.op === 'create-table' && op.table.flags?.includes('owner') === true
}

describe('a hand-over that the kernel refuses', () => {
  const withoutOwners = /^this kernel has no tables that end with their owner, which Linux has since 5\.13: /u
  const rows = [
    {
      name: 'before Linux 5.13, which refuses unknown flags with EINVAL',
      errno: EINVAL,
      says: withoutOwners,
    },
    { name: 'without tables that have an owner', errno: EOPNOTSUPP, says: withoutOwners },
    {
      name: 'beside another hand-over',
      errno: EEXIST,
      says: /^another viaduct hand-over runs on this node/u,
    },
    { name: 'without rights', errno: EPERM, says: /or this process is not root: /u },
  ]
  for (const { name, errno, says } of rows)
    it(`${name} gets a sentence (issue 43, B2)`, async () => {
      const kernel = await nodeWithTable()
      kernel.nftables.plan = { fault: (op) => (needsOwner(op) ? errno : undefined) }
      await assert.rejects(copyTable(kernel.nftables, 'ipv4'), (error) => {
        assert.match(adviceOnHandOver(error), says)
        return true
      })
    })

  it('for another operation keeps the message of the kernel', async () => {
    const kernel = await nodeWithTable()
    kernel.nftables.plan = { fault: (op) => (op.op === 'add-set' ? EINVAL : undefined) }
    await assert.rejects(copyTable(kernel.nftables, 'ipv4'), (error) => {
      assert.match(adviceOnHandOver(error), /^nftables: add set .*: EINVAL$/u)
      return true
    })
  })
})

const heading = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
`
/** 192.0.2.1:80 of another program, and 10.96.0.10:53 of kube-proxy, with a real server each. */
const other = `TCP  C0000201:0050 wlc
  -> 0A600001:0050      Masq    1      0          0
FWM  0A60000A wlc
`
const ofKubeProxy = `UDP  0A60000A:0035 rr
  -> 0AF40001:0035      Masq    1      0          0
`

/** The exit code of a hand-over with these virtual servers, and what it says. */
async function handOverBeside(servers: string): Promise<readonly [code: number, text: string]> {
  const clock = new ManualClock()
  const lines: string[] = []
  const ended = handOver(await nodeWithTable(), 5000, {
    clock,
    out: async (text) => void lines.push(text),
    err: (text) => void lines.push(text),
    virtualServers: async () => `${heading}${servers}`,
  })
  await clock.advance(5000)
  return [await ended, lines.at(-1) ?? '']
}

describe('a hand-over beside virtual servers', () => {
  // Before, each virtual server of the node counted: the table went before kube-proxy had come.
  it('does not end for those of another program', async () => {
    const [code, text] = await handOverBeside(other)
    assert.equal(code, 1)
    assert.match(text, /^viaduct: no rules of kube-proxy in IPv4 after 5 s; /u)
  })

  it('ends for those of cluster IPs, which kube-proxy has in ipvs mode', async () => {
    const [code, text] = await handOverBeside(`${other}${ofKubeProxy}`)
    assert.equal(code, 0)
    assert.match(text, /^viaduct: kube-proxy has written its rules; /u)
  })
})
