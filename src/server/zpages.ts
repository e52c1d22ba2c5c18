// The pages /statusz (version, start time, paths) and /flagz (values of the flags).
import { text, type PageRequest, type Reply } from './reply.js'

const warning =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.'
const component = 'kube-proxy'
const apiGroup = 'config.k8s.io'
const deprecatedVersion = 'v1alpha1'
const versions: readonly string[] = [deprecatedVersion, 'v1beta1']

export interface ProcessFacts {
  /** Unix milliseconds. */
  readonly startedMs: number
  readonly version: string
}

export interface StatuszOptions {
  readonly facts: ProcessFacts
  /** Unix milliseconds. */
  readonly nowMs: number
  readonly paths: readonly string[]
}

export async function statusz(request: PageRequest, { facts, nowMs, paths }: StatuszOptions): Promise<Reply> {
  const { startedMs, version } = facts
  const seconds = Math.max(0, Math.floor((nowMs - startedMs) / 1000))
  return await negotiated(request, 'Statusz', {
    text: () =>
      [
        `Started: ${unixDate(startedMs)}`,
        `Up: ${uptime(seconds)}`,
        `Go version: ${process.version}`,
        `Binary version: ${version}`,
        `Emulation version: ${version}`,
        `Paths: ${paths.join(' ')}`,
      ].join('\n'),
    fields: () => ({
      startTime: new Date(startedMs).toISOString().replace(/\.\d+Z$/u, 'Z'),
      uptimeSeconds: seconds,
      goVersion: process.version,
      binaryVersion: version,
      emulationVersion: version,
      paths,
    }),
  })
}

/** `flags`: values by name. */
export async function flagz(request: PageRequest, flags: Readonly<Record<string, string>>): Promise<Reply> {
  const entries = Object.entries(flags).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return await negotiated(request, 'Flagz', {
    text: () => entries.map(([name, value]) => `${name}=${value}`).join('\n'),
    fields: () => ({ flags: Object.fromEntries(entries) }),
  })
}

interface Forms {
  readonly text: () => string
  /** Fields of the object, without its kind. */
  readonly fields: () => object
}

/** Writers of an object by media type. */
const writers: ReadonlyMap<string, (value: object) => Promise<string>> = new Map([
  ['application/json', async (value: object) => await Promise.resolve(JSON.stringify(value))],
  ['application/yaml', yamlOf],
])

/** Loads js-yaml only now. Keys are sorted, as in YAML of Kubernetes. */
async function yamlOf(value: object): Promise<string> {
  const { dump } = await import('js-yaml')
  return dump(value, { lineWidth: -1, sortKeys: true })
}

/** Replies with text, with the object if the client accepts one of its versions, or with 406. */
async function negotiated(
  { accept = '*/*' }: PageRequest,
  kind: 'Statusz' | 'Flagz',
  forms: Forms,
): Promise<Reply> {
  for (const range of accept.split(',')) {
    const [type = '', ...rest] = range.split(';').map((part) => part.trim().toLowerCase())
    if (['text/plain', 'text/*', '*/*'].includes(type))
      return text(`\n${component} ${kind.toLowerCase()}\n${warning}\n\n${forms.text()}\n`)
    const version = versions.find((candidate) => rest.includes(`v=${candidate}`))
    const isOurs = rest.includes(`g=${apiGroup}`) && rest.includes(`as=${kind.toLowerCase()}`)
    const write = writers.get(type)
    if (write === undefined || version === undefined || !isOurs) continue
    const head = { kind, apiVersion: `${apiGroup}/${version}`, metadata: { name: component } }
    const contentType = `${type};g=${apiGroup};v=${version};as=${kind}`
    const headers = version === deprecatedVersion ? deprecation(kind) : {}
    return { status: 200, contentType, headers, body: await write({ ...head, ...forms.fields() }) }
  }
  const types = ['text/plain', ...writers.keys()].join(', ')
  return text(`supported types: ${types}; the latter two with the parameters v, g and as\n`, 406)
}

/** kube-proxy 1.37's header with the objects of a deprecated version. */
function deprecation(kind: 'Statusz' | 'Flagz'): NonNullable<Reply['headers']> {
  const page = kind.toLowerCase()
  return {
    Warning: `299 - "This version of the ${page} endpoint is deprecated. Please use a newer version."`,
  }
}

function uptime(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  return `${hours} hr ${twoDigits(minutes)} min ${twoDigits(seconds % 60)} sec`
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0')
}

/** Go's time.UnixDate: `Mon Jan _2 15:04:05 MST 2006`. */
function unixDate(unixMs: number): string {
  const [weekday, day = '', month, year, time] = new Date(unixMs).toUTCString().split(/,? /u)
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} UTC ${year}`
}
