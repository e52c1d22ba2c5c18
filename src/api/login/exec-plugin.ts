// Credentials from a program that a kubeconfig names (k8s.io/client-go/plugin/pkg/client/auth/exec).
import { execFile } from 'node:child_process'
import type { Clock } from '../../clock.js'
import { ConfigError } from '../../errors.js'
import { examineClientCertificate } from './certificates.js'
import type { ExecSettings } from './exec-settings.js'

export interface ExecCredential {
  /** undefined: only a certificate. */
  readonly token: string | undefined
  /** PEM; undefined: only a token. */
  readonly certificate: { readonly cert: string; readonly key: string } | undefined
}

export interface ExecPluginOptions {
  readonly settings: ExecSettings
  /** The cluster in the spec of the ExecCredential, if the plugin requests it. Throws ConfigError. */
  readonly cluster: () => object
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
}

/** Plugins depend on other machines. Without a deadline, a plugin that hangs would block the agent without a message. */
const deadlineMs = 60_000
const largestOutput = 1024 * 1024

/** One plugin. It runs when a request needs a credential and the last one has expired or was refused. */
export class ExecPlugin {
  readonly #options: ExecPluginOptions
  #last: { readonly credential: ExecCredential; readonly expiresMs: number } | undefined
  /** The current run. Several requests may wait for it. */
  #run: Promise<ExecCredential> | undefined

  constructor(options: ExecPluginOptions) {
    this.#options = options
  }

  /** Rejects with ConfigError when the plugin fails; the next call runs it again. Its run ends when `signal` aborts. */
  async credential(signal: AbortSignal): Promise<ExecCredential> {
    if (this.#last !== undefined && this.#options.clock.unixMs() < this.#last.expiresMs) {
      return this.#last.credential
    }
    this.#run ??= this.#read(signal).finally(() => {
      this.#run = undefined
    })
    return await this.#run
  }

  /** Forgets a credential that the server refused. */
  discard(credential: ExecCredential): void {
    if (this.#last?.credential === credential) this.#last = undefined
  }

  async #read(signal: AbortSignal): Promise<ExecCredential> {
    const output = await this.#execute(signal)
    const { credential, expires } = this.#parse(output)
    const expiresMs = expires === undefined ? Number.POSITIVE_INFINITY : Date.parse(expires)
    if (Number.isNaN(expiresMs)) {
      throw this.#error('status.expirationTimestamp must be a time')
    }
    this.#last = { credential, expiresMs }
    return credential
  }

  /** Runs the plugin. Resolves with its standard output. */
  async #execute(signal: AbortSignal): Promise<string> {
    const { settings, cluster, environment } = this.#options
    const { command, args, env, apiVersion, wantsCluster } = settings
    const spec = { interactive: false, ...(wantsCluster ? { cluster: cluster() } : {}) }
    const request = JSON.stringify({ kind: 'ExecCredential', apiVersion, spec })
    const options = {
      env: { ...environment, ...env, KUBERNETES_EXEC_INFO: request },
      timeout: deadlineMs,
      killSignal: 'SIGKILL',
      maxBuffer: largestOutput,
      signal,
    } as const
    return await new Promise((resolve, reject) => {
      const child = execFile(command, args, options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout)
        else reject(this.#error(this.#explain(error, stderr)))
      })
      // The plugin gets no input. A plugin that does not read its input does not fail.
      child.stdin?.on('error', () => undefined).end()
    })
  }

  /** NB: without the words of the plugin, which may hold a secret. Errors go to the log, the status page and bundles. */
  #explain(error: Error & { code?: unknown; killed?: boolean; signal?: unknown }, stderr: string): string {
    const { installHint } = this.#options.settings
    if (error.code === 'ENOENT') {
      return `is absent: install it, or correct the path${installHint === '' ? '' : ` (${installHint})`}`
    }
    if (typeof error.code === 'string') return `failed: ${error.message}`
    const output = describeComplaint(stderr)
    if (typeof error.code === 'number') return `ended with code ${error.code}${output}`
    return error.killed === true
      ? `did not end within ${deadlineMs / 1000} s${output}`
      : `was ended by ${String(error.signal)}${output}`
  }

  #parse(output: string): { readonly credential: ExecCredential; readonly expires: string | undefined } {
    const answer = this.#fields(output)
    for (const [name, expected] of [
      ['kind', 'ExecCredential'],
      ['apiVersion', this.#options.settings.apiVersion],
    ] as const) {
      if (answer[name] !== expected) {
        throw this.#error(`its ${name} must be ${expected}`)
      }
    }
    const status = Object(answer['status'])
    const [token, cert, key, expires] = [
      'token',
      'clientCertificateData',
      'clientKeyData',
      'expirationTimestamp',
    ].map((name) => this.#text(status, name))
    if ((cert === undefined) !== (key === undefined)) {
      throw this.#error('its status must have both clientCertificateData and clientKeyData, or neither')
    }
    if (token === undefined && cert === undefined) {
      throw this.#error('its status has neither a token nor a client certificate')
    }
    const certificate = cert === undefined || key === undefined ? undefined : { cert, key }
    if (certificate !== undefined) {
      const { field, command } = this.#options.settings
      examineClientCertificate(
        `${field}: ${command}: its client certificate`,
        certificate.cert,
        certificate.key,
      )
    }
    return { credential: { token, certificate }, expires }
  }

  #fields(output: string): Readonly<Record<string, unknown>> {
    try {
      return Object(JSON.parse(output))
    } catch {
      // NB: not the output itself, which may hold a secret.
      throw this.#error('its standard output must be an ExecCredential in JSON')
    }
  }

  #text(status: object, name: string): string | undefined {
    const value: unknown = Reflect.get(status, name) ?? ''
    if (typeof value !== 'string') throw this.#error(`status.${name} must be text`)
    return value === '' ? undefined : value.trim()
  }

  #error(problem: string): ConfigError {
    const { field, command } = this.#options.settings
    return new ConfigError(`${field}: ${command}`, problem)
  }
}

function describeComplaint(stderr: string): string {
  const [line = ''] = stderr.trim().split('\n', 1)
  if (line === '') return ', without an error message'
  return `; the first line of its error message has ${line.length} characters: run the plugin to read it`
}
