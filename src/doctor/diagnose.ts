import { agentChecks } from './agent-checks.js'
import { apiChecks } from './api-checks.js'
import { barrierChecks } from './barrier-checks.js'
import type { Check, Examined, Finding } from './check.js'
import { connectionChecks } from './connection-checks.js'
import { limitChecks } from './limit-checks.js'
import { lockCheck } from './lock-check.js'
import { machineChecks } from './machine-checks.js'
import { modeChecks } from './mode-checks.js'
import { mtuCheck } from './mtu-check.js'
import { otherProxyCheck } from './other-proxies.js'
import { proxyChecks } from './proxy-checks.js'
import { returnPathChecks } from './return-path-checks.js'
import { ruleChecks } from './rule-checks.js'

/** The table of checks, in the order of the report. */
export const checks: readonly Check[] = [
  ...agentChecks,
  ...modeChecks,
  ...proxyChecks,
  otherProxyCheck,
  ...ruleChecks,
  ...barrierChecks,
  ...returnPathChecks,
  mtuCheck,
  lockCheck,
  ...limitChecks,
  ...machineChecks,
  ...connectionChecks,
  ...apiChecks,
]

/** Runs all checks at once. A check that fails has the status `unknown`, and the others run nevertheless. */
export async function diagnose(node: Examined): Promise<readonly Finding[]> {
  const findings = await Promise.all(
    checks.map(async (check) =>
      (await verdictsOf(check, node)).map((verdict): Finding => ({ check: check.name, ...verdict })),
    ),
  )
  return findings.flat()
}

async function verdictsOf(check: Check, node: Examined): ReturnType<Check['run']> {
  try {
    return await check.run(node)
  } catch (error) {
    const seen = error instanceof Error ? error.message : String(error)
    const cause = `The check could not read ${check.looksAt}.`
    return [{ status: 'unknown', seen, cause, remedy: 'Run the doctor as root on the node.' }]
  }
}
