// The doctor in a pod without /lib/modules: it is not known which modules are built in.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { diagnose, type Examined } from '../../../src/doctor/index.js'
import { examinedNode } from '../../support/examined-node.js'

const none = async (): Promise<readonly []> => await Promise.resolve([])

/** A node without rules of other programs. */
function emptyNode(changed: Partial<Pick<Examined, 'unknownParts' | 'modes'>>): Examined {
  const node = examinedNode({})
  const reads = { activeChains: none, findMarkUses: none, policyRules: none, firewall: none }
  return { ...node, kernel: { ...node.kernel, ...reads }, ...changed }
}

async function findingsOf(node: Examined, name: string): ReturnType<typeof diagnose> {
  return (await diagnose(node)).filter(({ check }) => check === name)
}

const cases = [
  { check: 'iptables-flavour', part: 'nf_tables' },
  { check: 'leftovers', part: 'nf_tables' },
  { check: 'mark-bits', part: 'nf_tables' },
  { check: 'nat-order', part: 'nf_tables' },
  { check: 'forward', part: 'nf_tables' },
  { check: 'other-proxies', part: 'ip_set' },
  { check: 'other-proxies', part: 'nf_tables' },
] as const

describe('a part of which it is not known whether the kernel has it', () => {
  for (const { check, part } of cases)
    it(`makes ${check} unknown: ${part}`, async () => {
      const [fine] = await findingsOf(emptyNode({}), check)
      assert.equal(fine?.status, 'ok')
      const [found, ...more] = await findingsOf(emptyNode({ unknownParts: [part] }), check)
      assert.ok(found?.status === 'unknown')
      assert.equal(found.seen, `it is not known whether this kernel has ${part}, which was not asked`)
      assert.match(
        found.remedy,
        new RegExp(
          `^Mount /lib/modules .* read-only .*: modprobe -n -v -a ${part} \\(no output: the kernel has them\\)\\.$`,
          'u',
        ),
      )
      assert.deepEqual(more, [])
    })

  it('hides no problem that the check found elsewhere', async () => {
    const node = emptyNode({ unknownParts: ['ip_set'] })
    const link = { name: 'kube-dummy-if', index: 7, kind: 'dummy', isUp: true }
    const links = { ...node.kernel.links, list: async () => await Promise.resolve([link]) }
    const found = await findingsOf({ ...node, kernel: { ...node.kernel, links } }, 'other-proxies')
    assert.deepEqual(
      found.map(({ status }) => status),
      ['broken', 'unknown'],
    )
  })
})

describe('modules of the mode that this kernel may load only at the next boot', () => {
  const { modes } = examinedNode({})
  it('are a warning that names all of them', async () => {
    const found = await findingsOf(
      emptyNode({ modes: { ...modes, chosen: 'iptables', locked: ['xt_recent', 'xt_statistic'] } }),
      'mode',
    )
    assert.deepEqual(
      found.map(({ status, seen }) => `${status}: ${seen}`),
      ['warning: this kernel has not loaded modules of iptables mode: xt_recent, xt_statistic'],
    )
  })
})

describe('modules of the mode of which it is not known whether the kernel has them', () => {
  const { modes } = examinedNode({})
  const unknown = ['ip_vs', 'ip_vs_rr']
  const rows = [
    { problem: undefined, statuses: ['unknown'] },
    { problem: 'ipvs mode cannot run here', statuses: ['warning', 'unknown'] },
  ]
  for (const { problem, statuses } of rows)
    it(`make the check unknown${problem === undefined ? '' : ', and hide no problem'}`, async () => {
      const found = await findingsOf(
        emptyNode({ modes: { ...modes, chosen: 'ipvs', problem, unknown } }),
        'mode',
      )
      assert.deepEqual(
        found.map(({ status }) => status),
        statuses,
      )
      const last = found.at(-1)
      assert.ok(last?.status === 'unknown')
      assert.equal(
        last.seen,
        'it is not known whether this kernel has the modules of ipvs mode: ip_vs, ip_vs_rr',
      )
      assert.match(last.remedy, /modprobe -n -v -a ip_vs ip_vs_rr \(no output: the kernel has them\)\.$/u)
    })
})
