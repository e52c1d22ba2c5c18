// The kernel setting that lets packets from and to 127.0.0.0/8 leave and enter the machine (F-064). While it is set, a neighbour reaches
// the node's programs on 127.0.0.1, unless a rule drops its packets (CVE-2020-8558).
import { KernelError } from '../errors.js'
import type { Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'
import { ensureSetting, readOrNothing } from './kernel-settings.js'

const path = 'net/ipv4/conf/all/route_localnet'

/**
 * Every value but 0 sets it (net/ipv4/devinet.c: a plain integer). Administrators and kube-proxy write 1, so this value shows, for as
 * long as the network namespace has the setting, that Viaduct wrote it.
 */
const ownValue = 2

interface Node {
  readonly kernel: { readonly sysctl: Sysctl }
  readonly log: Log
}

/**
 * Sets it if it is 0. NB: the caller has written the guard, the rule of KUBE-FIREWALL that drops the packets of neighbours. Logs a
 * refusal of the kernel.
 */
export async function routeLocalnet({ kernel, log }: Node): Promise<void> {
  const present = await readOrNothing(kernel.sysctl, path)
  if (present !== undefined && Number(present) !== 0) return
  const outcome = await ensureSetting({ path, value: ownValue }, { sysctl: kernel.sysctl, log })
  if (!(outcome instanceof KernelError)) return
  const remedy = 'set it on the node, or use --iptables-localhost-nodeports=false'
  log.error(`Kernel setting cannot be changed: ${path} should be 1; ${remedy}`, {
    setting: path,
    err: outcome,
  })
}

/**
 * Sets it to 0 if Viaduct had set it. The guard stays: kubelet has it too. Resolves with the kernel's refusal, or with undefined if the
 * setting is right. Never throws KernelError.
 */
export async function takeBackLocalnet({ kernel, log }: Node): Promise<KernelError | undefined> {
  if ((await readOrNothing(kernel.sysctl, path)) !== String(ownValue)) return undefined
  const outcome = await ensureSetting({ path, value: 0 }, { sysctl: kernel.sysctl, log })
  return outcome instanceof KernelError ? outcome : undefined
}
