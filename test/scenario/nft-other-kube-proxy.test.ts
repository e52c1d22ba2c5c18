// A kube-proxy that still runs beside nftables mode is reported, and Viaduct does not fight it.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { settle } from '../support/manual-clock.js'
import { NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { service, set, slice, synced } from '../support/objects.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const ours = { family: 'ipv4', table: 'kube-proxy' } as const

/** One sync of kube-proxy in nftables mode: it rewrites a base chain of the table, and its chain of a Service. */
async function syncKubeProxy(lab: NftModeLab, sync: number): Promise<void> {
  const chain = `service-AAAABBBB-default/web-${sync}/tcp/`
  await lab.asOther(
    { op: 'add-chain', chain: { ...ours, chain } },
    { op: 'flush-chain', chain: { ...ours, chain: 'nat-prerouting' } },
  )
  await settle()
}

it('repairs at once at first, and once a minute after the report, until kube-proxy ends', async () => {
  const lab = new NftModeLab()
  await lab.deliver(...web, synced)
  const right = nftLines(lab.namespace).filter((line) => line.includes(' nat-prerouting '))
  const isRight = (): boolean =>
    right.every((line) => nftLines(lab.namespace).includes(line)) &&
    right.some((line) => line.includes('add rule'))
  const wait = async (seconds: number): Promise<void> => {
    for (let step = 0; step < seconds; step++) {
      await lab.clock.advance(1000)
      await settle()
    }
  }
  assert.ok(isRight())
  await wait(1)
  await syncKubeProxy(lab, 1)
  assert.ok(isRight(), 'the first change is repaired at once')
  await wait(30)
  await syncKubeProxy(lab, 2)
  const warnings = lab.log.find('warn', 'Another kube-proxy is running')
  assert.equal(warnings.length, 1)
  assert.equal(warnings[0]?.fields['ipFamily'], 'IPv4')
  const repairs: number[] = []
  for (let second = 0; second < 180; second++) {
    const wasRight = isRight()
    await wait(1)
    if (!wasRight && isRight()) repairs.push(second)
    if (second % 30 === 29 && second < 150) await syncKubeProxy(lab, 3 + second)
  }
  assert.ok(repairs.length >= 2 && repairs.length <= 3, repairs.join(' '))
  assert.ok(
    repairs.every((second, i) => i === 0 || second - (repairs[i - 1] ?? 0) >= 59),
    repairs.join(' '),
  )
  await wait(121)
  assert.ok(isRight())
  assert.equal(lab.log.find('info', 'No other kube-proxy is running any more').length, 1)
  assert.equal(lab.log.find('warn', 'Another kube-proxy is running').length, 1)
  await lab.stop()
})
