// One replaced endpoint of a Service, in a mode on the model kernel of the tests.
import { pathToFileURL } from 'node:url'

/**
 * Starts the mode with 20 Services and replaces an endpoint of one.
 * @param {string} folder the compiled tree
 * @param {string} way a mode and a flavour of x_tables, such as `iptables nft`
 * @param {(isBegin: boolean) => void} mark called before and after the change
 */
export async function replaceEndpoint(folder, way, mark = () => {}) {
  /** @param {string} path */
  const load = async (path) => await import(pathToFileURL(`${folder}/test/support/${path}.js`).href)
  const { PipelineLab } = await load('pipeline-lab')
  const { node, service, set, slice, synced } = await load('objects')
  const [mode, flavour] = way.split(' ')
  const lab = new PipelineLab({ config: { mode }, flavour })
  lab.log.writes = () => false
  const services = Array.from({ length: 20 }, (_, i) => [
    set(service(`s${i}`, `10.96.0.${i + 1}`)),
    set(slice(`s${i}-1`, `s${i}`, [`10.1.0.${i + 1}`, `10.1.1.${i + 1}`])),
  ])
  await lab.deliver(set(node('here', { ips: ['192.0.2.1'] })), ...services.flat(), synced)
  await lab.clock.advance(10_000)
  mark(true)
  await lab.deliver(set(slice('s7-1', 's7', ['10.1.0.8', '10.1.2.8'])))
  mark(false)
  await lab.stop()
}
