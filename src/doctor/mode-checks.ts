// Which proxy modes this kernel can run, and the settings that they need.
import type { XtFlavour } from '../kernel/index.js'
import {
  asRoot,
  type Check,
  type Examined,
  ok,
  partProblemsOr,
  problemsOr,
  unknownModules,
  type Verdict,
  isOtherUser,
} from './check.js'
import { podNetworks } from './network-checks.js'

export const modeChecks: readonly Check[] = [
  {
    name: 'mode',
    looksAt:
      'the configured mode and its fallbacks: opened in an empty network namespace, or their modules where one is not loaded',
    run: async ({ config, modes: { chosen, problem, denied, others, notLoaded, ...modules } }) => {
      if (denied !== undefined)
        return [
          {
            status: 'unknown',
            seen: `whether ${chosen} mode can run is not known: ${denied}`,
            cause:
              'The check opens modes in a network namespace of its own, which this process is not permitted to make.',
            remedy: 'Run the doctor as root on the node, with CAP_SYS_ADMIN.',
          },
        ]
      const also = others.length === 0 ? '' : `; this kernel can also run ${others.join(', ')}`
      const needs = [...unknownNeeds(chosen, modules.unknown), ...lockedNeeds(chosen, modules.locked)]
      const later =
        notLoaded.length === 0
          ? ''
          : `, not asked: the kernel loads ${notLoaded.join(', ')} when the agent needs them`
      if (problem === undefined) return needs.length > 0 ? needs : ok(`${chosen} mode can run${later}${also}`)
      if (chosen === undefined)
        return [
          {
            status: 'broken',
            seen: `no mode can be opened: ${problem}`,
            cause: `The agent with --proxy-mode=${config.mode} cannot start.`,
            remedy: `Load the missing module as described, or choose another mode${also}.`,
          },
        ]
      const fallback: Verdict = {
        status: 'warning',
        seen: problem,
        cause: `The agent runs ${chosen} mode instead of ${config.mode} mode.`,
        remedy: `Load the missing module as described, or set --proxy-mode to a mode that can run${also}.`,
      }
      return [fallback, ...needs]
    },
  },
  {
    name: 'iptables-flavour',
    looksAt:
      'the chains of kubelet and kube-proxy in the legacy tables and in nf_tables, and the number of rules in each',
    run: async (node) => {
      const { kernel, modes } = node
      const { flavour, flavourReason } = modes
      const nft = await countRules(kernel, 'nft')
      const legacy = nft === 0 ? 0 : await countRules(kernel, 'legacy')
      const fine = `flavour ${flavour}: ${flavourReason}`
      if (legacy === 0) return partProblemsOr(node, ['nf_tables'], [], fine)
      return [
        {
          status: 'warning',
          seen: `${nft} rules of iptables are in nf_tables and ${legacy} in the legacy tables; Viaduct takes ${flavour}: ${flavourReason}`,
          cause: 'A packet must pass both: what one flavour accepts, the other may drop or translate.',
          remedy:
            'Let all programs of the node use one flavour (update-alternatives --config iptables), and remove the rules of the other.',
        },
      ]
    },
  },
  {
    name: 'kernel-settings',
    looksAt:
      'the files of /proc/sys that the mode and connection tracking write, and IP forwarding (of IPv6 where pods have IPv6)',
    run: async (node) =>
      problemsOr(
        [...(await unwritable(node)), ...(await forwarding(node))],
        'the settings are right, or the agent can write them',
      ),
  },
]

/** `modules`: modules of the mode that are not loaded, and perhaps not there. */
function unknownNeeds(mode: string | undefined, modules: readonly string[]): readonly Verdict[] {
  if (mode === undefined || modules.length === 0) return []
  const seen = `it is not known whether this kernel has the modules of ${mode} mode: ${modules.join(', ')}`
  return [{ status: 'unknown', seen, ...unknownModules(modules) }]
}

/** `modules`: modules of the mode that this kernel may load only at the next boot. */
function lockedNeeds(mode: string | undefined, modules: readonly string[]): readonly Verdict[] {
  if (mode === undefined || modules.length === 0) return []
  return [
    {
      status: 'warning',
      seen: `this kernel has not loaded modules of ${mode} mode: ${modules.join(', ')}`,
      cause:
        'kernel.modules_disabled is 1: the kernel refuses rules that need them, or IPv6 Services, until the next boot.',
      remedy: 'Name them in a file of /etc/modules-load.d, and reboot.',
    },
  ]
}

/** The rules in the tables of x_tables, in built-in chains too. */
async function countRules(kernel: Examined['kernel'], flavour: XtFlavour): Promise<number> {
  let count = 0
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const table of await kernel.activeTables(family, flavour)) {
      const listing = await kernel.listTable({ family, table }, flavour)
      count += listing.reduce((sum, { rules }) => sum + rules.length, 0)
    }
  return count
}

async function unwritable(node: Examined): Promise<readonly Verdict[]> {
  const settings = node.modes.settings.filter(({ canWrite }) => !canWrite)
  if (settings.length === 0) return []
  const isOther = await isOtherUser(node)
  return settings.map(({ path, value, exists }) => {
    if (!exists)
      return {
        status: 'warning',
        seen: `this kernel has no /proc/sys/${path}, which the agent would set to ${value}`,
        cause: lacking,
        remedy: 'Leave out the flag that asks for it, or use a kernel that has it.',
      }
    const seen = `/proc/sys/${path} is not ${value}, and this process cannot write it`
    return isOther
      ? { status: 'unknown', seen, cause: 'Whether the agent can write it is not known.', remedy: asRoot }
      : {
          status: 'warning',
          seen,
          cause: lacking,
          remedy: `Set it on the node: sysctl -w ${path.replaceAll('/', '.')}=${value}.`,
        }
  })
}

const lacking = 'The agent needs this setting and will report that it cannot change it.'

/** ipvs mode writes that of IPv4 itself; userspace mode needs none. That of IPv6 is off on nodes without IPv6. */
async function forwarding(node: Examined): Promise<readonly Verdict[]> {
  const { config, read } = node
  if (config.mode === 'userspace') return []
  const networks = await podNetworks(node)
  const isUnknown = 'seen' in networks
  const hasIpv6 = !isUnknown && networks.some(({ family }) => family === 'ipv6')
  const settings = [
    ...(config.mode === 'ipvs' ? [] : ['net/ipv4/ip_forward']),
    ...(hasIpv6 ? ['net/ipv6/conf/all/forwarding'] : []),
  ]
  const found: Verdict[] = isUnknown ? [networks] : []
  for (const path of settings) {
    if ((await read(`/proc/sys/${path}`))?.trim() !== '0') continue
    found.push({
      status: 'broken',
      seen: `/proc/sys/${path} is 0`,
      cause: 'The kernel drops packets of pods and clients to endpoints on other interfaces.',
      remedy: `Turn forwarding on: sysctl -w ${path.replaceAll('/', '.')}=1, and keep it in /etc/sysctl.d.`,
    })
  }
  return found
}
