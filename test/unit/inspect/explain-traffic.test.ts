// `viaduct explain` answers for every row of the traffic table as the packets do, in every mode.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { rulesOfModes } from '../../traffic/packet-modes.js'
import { differencesOfExplain, isExplained } from '../../traffic/table-on-explain.js'
import { trafficTable } from '../../traffic/table/index.js'

const firewall = "the node's own firewall decides, which explain does not know"
const marks = "rules of other programs change the packet's mark, which explain does not know"

/** The rows for which explain says something else than the packets do, by mode, each with the reason. */
const exceptions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  iptables: { 'what is not masqueraded is the business of that firewall': firewall },
  'iptables-nft': { 'what is not masqueraded is the business of that firewall': firewall },
  nftables: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
  },
  ipvs: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'node ports that a firewall closes at INPUT': firewall,
    'masquerade all, by another bit: policy Local: all clients to every frontend': marks,
    'masquerade all, by another bit: internal policy Cluster with external policy Local': marks,
    'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source': marks,
  },
  userspace: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
    'node ports that a firewall closes at INPUT': firewall,
    "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules":
      'the connections are those of the former kube-proxy',
  },
}

for (const [name, mode] of Object.entries(rulesOfModes)) {
  const protocols = name === 'userspace' ? (['TCP', 'UDP'] as const) : (['TCP', 'UDP', 'SCTP'] as const)
  describe(`explain in mode ${name}`, () => {
    const unused = new Set(Object.keys(exceptions[name] ?? {}))
    for (const group of mode.groups(trafficTable(protocols))) {
      for (const row of group.cases.filter(({ checks }) => checks.some(isExplained))) {
        it(`${group.name}: ${row.name}`, () => {
          const key = group.name.startsWith('masquerade all')
            ? `masquerade all, by another bit: ${row.name}`
            : row.name
          const reason = exceptions[name]?.[key]
          unused.delete(key)
          const failures = differencesOfExplain(mode, group, row)
          if (reason === undefined) assert.equal(failures.length, 0, failures.join('\n'))
          else assert.ok(failures.length > 0, `is no exception any more: ${reason}`)
        })
      }
    }
    it('has no exception for a row that does not exist', () => assert.deepEqual([...unused], []))
  })
}
