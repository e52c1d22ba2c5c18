// The exec section of a kubeconfig's user.
import { resolve } from 'node:path'
import type { KubeconfigFields } from './kubeconfig-fields.js'

export interface ExecSettings {
  /** Path of the section in its file, for messages. */
  readonly field: string
  /** A command without a slash is looked up in PATH. */
  readonly command: string
  readonly args: readonly string[]
  /** Added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>
  readonly apiVersion: string
  /** The advice of the file for a missing command; blank: none. */
  readonly installHint: string
  /** Whether the command gets a description of the cluster. */
  readonly wantsCluster: boolean
}

const apiVersions = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1']

/** Reads the section; undefined: there is none. Throws ConfigError. */
export function readExec(user: KubeconfigFields, folder: string): ExecSettings | undefined {
  const fields = user.mapping('exec')
  if (fields === undefined) return undefined
  const command = fields.requiredText('command', 'a program')
  const apiVersion = fields.requiredText('apiVersion', `one of ${apiVersions.join(', ')}`)
  if (!apiVersions.includes(apiVersion)) {
    throw fields.error('apiVersion', `must be one of ${apiVersions.join(', ')}, not ${apiVersion}`)
  }
  const mode = fields.text('interactiveMode')
  if (mode === 'Always') {
    throw fields.error(
      'interactiveMode',
      'must be Never or IfAvailable, not Always: the agent has no terminal',
    )
  }
  if (!['Never', 'IfAvailable', ''].includes(mode)) {
    throw fields.error('interactiveMode', `must be Never or IfAvailable, not ${mode}`)
  }
  const variables = fields
    .mappings('env')
    .map((item) => [item.requiredText('name', 'the name of a variable'), item.text('value')])
  return {
    field: fields.error('', '').path,
    // As in client-go, a path with a folder is relative to the kubeconfig.
    command: command.includes('/') ? resolve(folder, command) : command,
    args: fields.texts('args'),
    env: Object.fromEntries(variables),
    apiVersion,
    installHint: fields.text('installHint'),
    wantsCluster: fields.flag('provideClusterInfo'),
  }
}
