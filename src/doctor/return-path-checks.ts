// Packets that the kernel drops because their source address has another way back.
import { type Check, ok } from './check.js'

export const returnPathChecks: readonly Check[] = [
  {
    name: 'reverse-path',
    looksAt:
      'rp_filter of each interface, and the packets that it dropped since this network namespace began',
    run: async ({ read, kernel }) => {
      const all = await setting(read, 'all')
      const strict: string[] = []
      // The kernel takes the larger one of both values.
      for (const { name } of await kernel.links.list())
        if (Math.max(all, await setting(read, name)) === 1) strict.push(name)
      const dropped = counter((await read('/proc/net/netstat')) ?? '', 'TcpExt', 'IPReversePathFilter')
      const where = strict.length === 0 ? 'strict on no interface' : `strict on ${strict.join(', ')}`
      if (dropped === 0) return ok(`no packet dropped; ${where}`)
      return [
        {
          status: 'warning',
          seen: `the reverse path filter dropped ${dropped} packets; it is ${where}`,
          cause:
            'Packets came in by another interface than their answer would leave by, such as through a second network or a tunnel.',
          remedy:
            'Run nstat -az TcpExtIPReversePathFilter again later: if it grows, set the interface to loose, such as sysctl -w net.ipv4.conf.eth1.rp_filter=2.',
        },
      ]
    },
  },
]

/** 0 off, 1 strict, 2 loose. */
async function setting(read: (path: string) => Promise<string | undefined>, name: string): Promise<number> {
  return Number((await read(`/proc/sys/net/ipv4/conf/${name}/rp_filter`)) ?? '0')
}

/** A value of a group of /proc/net/netstat: a line of names, then a line of numbers. */
function counter(text: string, group: string, name: string): number {
  const [names = [], values = []] = text
    .split('\n')
    .filter((line) => line.startsWith(`${group}: `))
    .map((line) => line.split(' '))
  const value = values[names.indexOf(name)]
  if (value === undefined) throw new Error(`/proc/net/netstat has no counter ${name}`)
  return Number(value)
}
