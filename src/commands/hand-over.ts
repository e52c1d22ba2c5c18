import { type Command, CommandError } from './command.js'

/** As its help has it, and by default. */
export const handOverTimeoutSeconds = '600'

export const handOverCommand: Command = {
  name: 'hand-over',
  help: 'keeps Services reachable while kube-proxy takes the node back',
  description:
    'kube-proxy in its modes iptables and ipvs deletes the table kube-proxy of nf_tables when it starts, and writes its rules later. This command copies the table of nftables mode, or of iptables mode in the flavour nft, to the table viaduct-hand-over, whose chains come after those of kube-proxy. It waits until kube-proxy has written its rules in each family, and deletes the copy. Start it first, then stop the agent, then start kube-proxy. The copy does not follow changes of Services. The kernel deletes it when the command ends in any way. Needs root and Linux 5.13.',
  arguments: [],
  options: [
    {
      name: 'timeout',
      metavar: 'SECONDS',
      help: 'longest wait for kube-proxy; then the copy is deleted',
      initial: handOverTimeoutSeconds,
    },
  ],
  examples: [{ line: 'hand-over', help: 'copy, wait for kube-proxy, delete the copy' }],
  finds: 'kube-proxy has not written its rules in time, or the table cannot be copied',
  isPlain: true,
  // The launcher runs the agent's bundle for it, except for its help.
  run: async () => {
    await Promise.resolve()
    throw new CommandError(2, 'run this command as dist/agent.js: it needs the bundle of the agent')
  },
}
