// A lab on a machine that serves node ports at its address 192.0.2.1, for tests of frontends that several Services want.
import type { ConfigInput } from '../../src/config/index.js'
import type { XtFlavour } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { node, set, synced } from './objects.js'
import { ip, PipelineLab } from './pipeline-lab.js'

/** The Node of the machine. */
export const here = set(node('here', { ips: ['192.0.2.1'] }))

/** Opens a lab that has these objects, and the Node. */
export async function openConflictLab(
  { mode, flavour }: { readonly mode: NonNullable<ConfigInput['mode']>; readonly flavour: XtFlavour },
  ...events: readonly ObjectEvent[]
): Promise<PipelineLab> {
  const kernel = openModelKernel()
  const { index } = await kernel.links.addDummy('eth0')
  await kernel.routes.apply([
    { op: 'add-address', address: { address: ip('192.0.2.1'), prefixLength: 24, interfaceIndex: index } },
  ])
  const lab = new PipelineLab({ kernel, flavour, config: { mode, nodePortAddresses: ['192.0.2.0/24'] } })
  await deliverApart(lab, here, ...events, synced)
  return lab
}

/** Transactions of nf_tables are some time apart. */
export async function deliverApart(lab: PipelineLab, ...events: readonly ObjectEvent[]): Promise<void> {
  await lab.deliver(...events)
  await lab.clock.advance(1000)
}
