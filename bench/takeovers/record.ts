// Records the rules that a kube-proxy in iptables mode on nf_tables writes for the Services of the lab:
//   node record.js ENDPOINTS FOLDER
// FOLDER gets IPv4.rules and IPv6.rules, as iptables-nft-save prints them: without counters, and without matches of nfacct, which
// need accounting objects that no tool of the tests makes.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SwitchLab } from '../../test/traffic/switch-lab.js'
import { proxies } from './proxies.js'

const [endpoints = '', folder = ''] = process.argv.slice(2)
const tools = { IPv4: 'iptables-nft-save', IPv6: 'ip6tables-nft-save' } as const
const lab = await SwitchLab.create()
try {
  const proxy = await proxies['kube-proxy iptables-nft'](lab, Number(endpoints))
  await proxy.inForce()
  for (const [family, tool] of Object.entries(tools)) {
    const saved = await lab.node.must(tool)
    const text = saved
      .replaceAll(/^#.*(?:\n|$)/gmu, '')
      .replaceAll(/\[\d+:\d+\]/gu, '[0:0]')
      .replaceAll(/ -m nfacct --nfacct-name {1,2}\S+/gu, '')
    writeFileSync(join(folder, `${family}.rules`), text)
  }
  await proxy.stop()
} finally {
  await lab.close()
}
