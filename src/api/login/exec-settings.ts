// The exec section of a kubeconfig's user.
import { resolve } from 'node:path'
import type { KubeconfigFields } from './kubeconfig-fields.js'

export interface ExecSettings {
  /** Of the section in its file, for messages. */
  readonly field: string
  /** Found in PATH when it has no slash. */
  readonly command: string
  readonly args: readonly string[]
  /** Added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>
  readonly apiVersion: string
  /** What to do when the command is not there; blank: the file does not say. */
  readonly installHint: string
  /** Whether the command is told of the cluster. */
  readonly wantsCluster: boolean
}

const apiVersions = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1']

/** undefined: there is none. Throws ConfigError. */
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
      'must not be Always: nobody is there to be asked; Never or IfAvailable',
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
    // As client-go does: a path with a folder is relative to the kubeconfig.
    command: command.includes('/') ? resolve(folder, command) : command,
    args: fields.texts('args'),
    env: Object.fromEntries(variables),
    apiVersion,
    installHint: fields.text('installHint'),
    wantsCluster: fields.flag('provideClusterInfo'),
  }
}
