// Connections that the kernel lost, and bridged packets that pass no rules.
import { type Check, ok, problemsOr } from './check.js'

const bridgeFiles = ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'] as const

export const connectionChecks: readonly Check[] = [
  {
    name: 'conntrack-drops',
    looksAt: 'the packets that connection tracking dropped, since this network namespace began',
    run: async ({ read }) => {
      const text = await read('/proc/net/stat/nf_conntrack')
      if (text === undefined) return ok('connection tracking is not loaded')
      const [drop, early] = [sumOf(text, 'drop'), sumOf(text, 'early_drop')]
      if (drop === 0 && early === 0) return ok('no packet and no connection dropped')
      return [
        {
          status: 'warning',
          seen: `connection tracking dropped ${drop} packets, and ${early} connections early to make room`,
          cause: 'The connection table was full at some time, or the kernel had no memory for an entry.',
          remedy:
            'Run conntrack -S again later: if the numbers grow, raise --conntrack-max-per-core and --conntrack-min.',
        },
      ]
    },
  },
  {
    name: 'bridge-filter',
    looksAt: 'bridge-nf-call-iptables and bridge-nf-call-ip6tables, where br_netfilter is loaded',
    run: async ({ read }) => {
      const values = await Promise.all(
        bridgeFiles.map(async (name) => ({ name, value: await read(`/proc/sys/net/bridge/${name}`) })),
      )
      return problemsOr(
        values
          .filter(({ value }) => value?.trim() === '0')
          .map(({ name }) => ({
            status: 'warning',
            seen: `net.bridge.${name} is 0`,
            cause:
              'The reply of an endpoint to a client on the same bridge is not translated back, and the client refuses it.',
            remedy: `If pods are on a Linux bridge, set it: sysctl -w net.bridge.${name}=1.`,
          })),
        'no bridge passes packets around the rules',
      )
    },
  },
]

/** The sum of a counter over all processors. The first line has the names; a processor has one line of hexadecimal numbers. */
function sumOf(text: string, name: string): number {
  const [names = [], ...processors] = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/u))
  const column = names.indexOf(name)
  if (column === -1) throw new Error(`/proc/net/stat/nf_conntrack has no column ${name}`)
  return processors.reduce((sum, numbers) => sum + Number.parseInt(numbers[column] ?? '0', 16), 0)
}
