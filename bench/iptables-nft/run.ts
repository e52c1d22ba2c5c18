// Measures one part of iptables mode on nf_tables, on this machine's own kernel in network namespaces. Prints the figures as one JSON
// line:
//   node run.js PART CONNECT_BINARY
// All files are under TMPDIR.
import { startAgent } from '../api/stage.js'
import { changeFigures, restartFigures, startFigures } from '../nftables/agent-figures.js'
import { connectionFigures } from '../nftables/connections.js'
import { agent } from './agent.js'
import { peerConnectionFigures, peerFigures, peerRestartFigures, startKubeProxy } from './peer-figures.js'
import { readerFigures } from './readers.js'

const [part = '', connect = ''] = process.argv.slice(2)
const size = { services: 10_000, reals: 1 }
const setting = { agent, connect, size }

/** scripts/bench/iptables-nft.mjs has a row for each of the main figures. */
const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  start: async () => await startFigures(setting),
  changes: async () => await changeFigures(setting),
  restart: async () => await restartFigures(setting),
  connections: async () => await connectionFigures(setting),
  readers: async () =>
    await readerFigures((place, api) => startAgent(place, api, { ...agent, verbosity: 0 }), setting),
  'kube-proxy': async () => await peerFigures(setting),
  'kube-proxy-restart': async () => await peerRestartFigures(setting),
  'kube-proxy-connections': async () => await peerConnectionFigures(setting),
  'kube-proxy-readers': async () => await readerFigures(startKubeProxy(), setting),
}

const measure = parts[part]
if (measure === undefined) throw new Error(`no part ${part}, only ${Object.keys(parts).join(' ')}`)
process.stdout.write(`${JSON.stringify(await measure())}\n`)
