// Tasks that run once, instead of the agent: --cleanup, --init-only, --write-config-to.
import { hostname } from 'node:os'
import { Registry } from 'prom-client'
import { formatConfig, inputWarnings, writeConfigFile, type Config } from '../config/index.js'
import type { Kernel } from '../kernel/index.js'
import { openMetrics } from '../metrics/index.js'
import { nodeName } from '../node/index.js'
import { takeBackLocalnet } from '../host/index.js'
import { adviceOn } from './advice.js'
import { routesLocalnet } from './housekeeping.js'
import { cleanUpAll } from './clean-up-all.js'
import { build, type BuildOptions } from './build.js'
import { openIntake } from './open-intake.js'
import { openConfiguredSource } from './open-source.js'

/** Removes the kernel objects of all modes. Resolves with the exit code. */
export async function cleanUp(config: Config, kernel: Kernel): Promise<number> {
  const { text, isComplete } = await cleanUpAll(kernel, config.ipvs.excludeCIDRs)
  process.stdout.write(`viaduct: ${text}\n`)
  return isComplete ? 0 : 1
}

/** Prepares the kernel for an agent with fewer rights, after a check of the agent's inputs. Resolves with the exit code. */
export async function initialise(
  options: Omit<BuildOptions, 'intake' | 'node' | 'metrics' | 'registry' | 'events' | 'onCrash'>,
): Promise<number> {
  const { config, clock, log } = options
  const registry = new Registry()
  const metrics = openMetrics(registry)
  await openConfiguredSource({
    config,
    nodeName: nodeName(config, hostname()),
    clock,
    log,
    metrics,
    onCrash: () => {},
  })
  const { mode } = await build({
    ...options,
    ...openIntake({ ...options, metrics }),
    metrics,
    registry,
    events: { record: () => {} },
    onCrash: () => {},
  })
  if (!routesLocalnet(mode, config)) {
    const refusal = await takeBackLocalnet(options)
    if (refusal !== undefined) throw refusal
  }
  log.info('System initialized and --init-only specified')
  return 0
}

/** Returns the exit code. */
export function writeConfig(config: Config, path: string): number {
  for (const warning of inputWarnings(config)) process.stderr.write(`viaduct: ${warning}\n`)
  try {
    writeConfigFile(path, formatConfig(config))
    return 0
  } catch (error) {
    process.stderr.write(`viaduct: ${adviceOn(error)}\n`)
    return 1
  }
}
