// The agent follows the changes of the ruleset by events of the kernel. When it has lost some, it compares everything in the next sync
// period.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Namespace } from '../../test/support/namespaces.js'
import type { AgentRun } from '../stage/agent-run.js'
import { ipv4 } from '../state.js'

const elements = 60_000
const comment = 'x'.repeat(120)
/** Their events are more than the agent's socket holds: 5 are enough. */
const transactions = 8
const firstAddress = 0x0a000000

/** While the agent is paused, another program loads large sets of its own, as firewalls do. The ruleset stays as it was. */
export async function loseEvents(place: Namespace, agent: AgentRun): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sets-'))
  const file = join(folder, 'sets.nft')
  const all = Array.from({ length: elements }, (_, i) => `${ipv4(firstAddress + i)} comment "${comment}"`)
  writeFileSync(
    file,
    `add table ip firewall; add set ip firewall blocked { type ipv4_addr; }
add element ip firewall blocked { ${all.join(', ')} }; delete table ip firewall\n`,
  )
  agent.pause()
  try {
    for (let i = 0; i < transactions; i++) await place.must('nft', '-f', file)
  } finally {
    agent.resume()
    rmSync(folder, { recursive: true })
  }
}
