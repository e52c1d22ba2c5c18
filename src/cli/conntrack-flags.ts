// Flags of the kernel's connection tracking, which every mode sets at start.
import { parseDuration, type ConfigInput } from '../config/index.js'
import type { Flag } from './flag.js'
import { parseBoolean, parseNumber } from './values.js'

type ConntrackInput = NonNullable<ConfigInput['conntrack']>

export const conntrackFlags: readonly Flag[] = [
  {
    name: 'conntrack-max-per-core',
    value: 'NUMBER',
    field: 'conntrack.maxPerCore',
    help: 'tracked connections for each CPU, 1048576 of all at most; 0: as they are (default 32768)',
    take: (input, text) => withConntrack(input, { maxPerCore: parseNumber('conntrack.maxPerCore', text) }),
  },
  {
    name: 'conntrack-min',
    value: 'NUMBER',
    field: 'conntrack.min',
    help: 'tracked connections at least, unless --conntrack-max-per-core is 0 (default 131072)',
    take: (input, text) => withConntrack(input, { min: parseNumber('conntrack.min', text) }),
  },
  {
    name: 'conntrack-tcp-timeout-established',
    value: 'DURATION',
    field: 'conntrack.tcpEstablishedTimeout',
    help: 'how long an idle TCP connection is remembered; 0: as it is (default 24h)',
    take: (input, text) =>
      withConntrack(input, {
        tcpEstablishedTimeoutMs: parseDuration('conntrack.tcpEstablishedTimeout', text),
      }),
  },
  {
    name: 'conntrack-tcp-timeout-close-wait',
    value: 'DURATION',
    field: 'conntrack.tcpCloseWaitTimeout',
    help: 'the same for one that the other side has closed; 0: as it is (default 1h)',
    take: (input, text) =>
      withConntrack(input, { tcpCloseWaitTimeoutMs: parseDuration('conntrack.tcpCloseWaitTimeout', text) }),
  },
  {
    name: 'conntrack-tcp-be-liberal',
    value: undefined,
    field: 'conntrack.tcpBeLiberal',
    help: 'take packets out of the window of their connection for valid; false: as it is (default false)',
    take: (input, text) =>
      withConntrack(input, { tcpBeLiberal: parseBoolean('conntrack.tcpBeLiberal', text) }),
  },
  {
    name: 'conntrack-udp-timeout',
    value: 'DURATION',
    field: 'conntrack.udpTimeout',
    help: 'how long a UDP flow without an answer is remembered; 0: as it is (default 0)',
    take: (input, text) =>
      withConntrack(input, { udpTimeoutMs: parseDuration('conntrack.udpTimeout', text) }),
  },
  {
    name: 'conntrack-udp-timeout-stream',
    value: 'DURATION',
    field: 'conntrack.udpStreamTimeout',
    help: 'the same for one with answers; 0: as it is (default 0)',
    take: (input, text) =>
      withConntrack(input, { udpStreamTimeoutMs: parseDuration('conntrack.udpStreamTimeout', text) }),
  },
]

function withConntrack(input: ConfigInput, changes: ConntrackInput): ConfigInput {
  return { ...input, conntrack: { ...input.conntrack, ...changes } }
}
