import { Type, type Static } from '@sinclair/typebox'
import { familyOf, parseIpAddress } from '../../address.js'
import type { LoadBalancerIngress, Service, ServicePortSpec } from '../objects.js'
import * as f from './fields.js'
import type { FieldProblem } from '../../api/index.js'

const largestPort = 65535
// The API server's default and limit (core/v1 DefaultClientIPServiceAffinitySeconds, MaxClientIPServiceAffinitySeconds).
const affinityDefaultSeconds = 10800
const affinityLargestSeconds = 86400

const ServiceDocument = f.mapping({
  // Stricter than the names of other objects, because comments of rules hold the name and have a limited length.
  metadata: f.mapping({
    ...f.metadata,
    name: f.dnsLabel,
    annotations: f.annotations,
    creationTimestamp: Type.Optional(Type.Unknown()),
  }),
  spec: f.mapping({
    type: Type.Optional(f.oneOf('ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName')),
    clusterIP: Type.Optional(f.clusterIP),
    clusterIPs: f.list(f.clusterIP),
    ipFamilies: f.list(f.oneOf('IPv4', 'IPv6')),
    ports: f.list(
      f.mapping({
        name: f.portName,
        protocol: f.protocol,
        port: f.wholeNumber(1, largestPort),
        nodePort: Type.Optional(f.wholeNumber(0, largestPort)),
      }),
    ),
    externalIPs: f.list(f.text),
    loadBalancerSourceRanges: f.list(f.text),
    sessionAffinity: Type.Optional(f.oneOf('None', 'ClientIP')),
    sessionAffinityConfig: Type.Optional(
      f.mapping({
        clientIP: Type.Optional(
          f.mapping({ timeoutSeconds: Type.Optional(f.wholeNumber(1, affinityLargestSeconds)) }),
        ),
      }),
    ),
    externalTrafficPolicy: f.trafficPolicy,
    internalTrafficPolicy: f.trafficPolicy,
    healthCheckNodePort: Type.Optional(f.wholeNumber(0, largestPort)),
  }),
  status: Type.Optional(
    f.mapping({
      loadBalancer: Type.Optional(
        f.mapping({
          ingress: f.list(
            f.mapping({ ip: Type.Optional(f.text), ipMode: Type.Optional(f.oneOf('VIP', 'Proxy')) }),
          ),
        }),
      ),
    }),
  ),
})

const readFields = f.fieldsBy(ServiceDocument)
type Fields = Static<typeof ServiceDocument>
type PortFields = NonNullable<Fields['spec']['ports']>[number]
type IngressFields = NonNullable<
  NonNullable<NonNullable<Fields['status']>['loadBalancer']>['ingress']
>[number]

/** Returns a v1 Service with the API server's defaults, or its problems. Headless Services and those without an address are valid. */
export function readService(document: unknown): Service | readonly FieldProblem[] {
  const reading = readFields(document)
  if ('problems' in reading) return reading.problems
  const service = buildService(reading.fields)
  const problems = [...wrongPorts(service.ports), ...wrongAddresses(service)]
  return problems.length === 0 ? service : problems
}

function buildService({ metadata, spec, status }: Fields): Service {
  const written = f.kept(spec.clusterIPs)
  const one = spec.clusterIP ?? ''
  const clusterIPs = written.length > 0 || one === '' ? written : [one]
  const ipFamilies = f.kept(spec.ipFamilies)
  const affinity = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? affinityDefaultSeconds
  const ports = f.kept(spec.ports).map(buildPort)
  const ingress = f.kept(status?.loadBalancer?.ingress).map(buildIngress)
  const labels = f.keptLabels(metadata.labels)
  const scheduling = f.keptScheduling(metadata.annotations)
  const createdMs = f.timeOf(metadata.creationTimestamp)
  // The API has whole seconds. V8 keeps them in place, and milliseconds in a heap object of their own.
  const createdSeconds = createdMs && Math.floor(createdMs / 1000)
  return {
    kind: 'Service',
    namespace: metadata.namespace ?? 'default',
    name: metadata.name,
    labels,
    scheduling,
    createdSeconds,
    type: spec.type ?? 'ClusterIP',
    clusterIP: one === '' ? (clusterIPs[0] ?? '') : one,
    clusterIPs,
    ipFamilies: ipFamilies.length > 0 ? ipFamilies : familiesOf(clusterIPs),
    ports,
    externalIPs: f.kept(spec.externalIPs),
    loadBalancerSourceRanges: f.kept(spec.loadBalancerSourceRanges),
    loadBalancerIngress: ingress.filter(({ ip }) => ip !== ''),
    sessionAffinity: spec.sessionAffinity ?? 'None',
    sessionAffinityTimeoutSeconds: affinity,
    externalTrafficPolicy: spec.externalTrafficPolicy ?? 'Cluster',
    internalTrafficPolicy: spec.internalTrafficPolicy ?? 'Cluster',
    healthCheckNodePort: spec.healthCheckNodePort ?? 0,
  }
}

function buildPort({ name, protocol, port, nodePort }: PortFields): ServicePortSpec {
  return { name: name ?? '', protocol: protocol ?? 'TCP', port, nodePort: nodePort ?? 0 }
}

function buildIngress({ ip, ipMode }: IngressFields): LoadBalancerIngress {
  return { ip: ip ?? '', ipMode: ipMode ?? 'VIP' }
}

/** The family of a valid cluster IP; undefined for "" and None. */
function familyName(text: string): 'IPv4' | 'IPv6' | undefined {
  if (!text.includes(':')) return text === '' || text === 'None' ? undefined : 'IPv4'
  const address = parseIpAddress(text)
  if (address === undefined) return undefined
  return familyOf(address) === 'ipv4' ? 'IPv4' : 'IPv6'
}

function familiesOf(clusterIPs: readonly string[]): ('IPv4' | 'IPv6')[] {
  return clusterIPs.map(familyName).filter((family) => family !== undefined)
}

function wrongPorts(ports: readonly ServicePortSpec[]): readonly FieldProblem[] {
  if (ports.length < 2) return []
  const problems: FieldProblem[] = []
  const names = new Map<string, number>()
  const numbers = new Map<string, number>()
  for (const [index, { name, port, protocol }] of ports.entries()) {
    const path = `spec.ports[${index}]`
    const number = `${protocol} ${port}`
    const sameName = names.get(name)
    const sameNumber = numbers.get(number)
    if (name === '') {
      problems.push({ path: `${path}.name`, problem: 'is missing: every one of several ports needs a name' })
    } else if (sameName !== undefined) {
      problems.push({ path: `${path}.name`, problem: `must be unique: ports[${sameName}] is "${name}" too` })
    }
    if (sameNumber !== undefined) {
      problems.push({
        path: `${path}.port`,
        problem: `must be unique: ports[${sameNumber}] is ${number} too`,
      })
    }
    names.set(name, index)
    numbers.set(number, index)
  }
  return problems
}

function wrongAddresses({ clusterIP, clusterIPs, ipFamilies }: Service): FieldProblem[] {
  const first = clusterIPs[0] ?? ''
  if (clusterIP !== first) {
    return [
      { path: 'spec.clusterIPs[0]', problem: `must equal spec.clusterIP ("${clusterIP}"), not "${first}"` },
    ]
  }
  const families = clusterIPs.map(familyName)
  if (families.length > 2 || (families.length === 2 && families[0] === families[1])) {
    return [{ path: 'spec.clusterIPs', problem: 'must be one address, or one of each IP family' }]
  }
  const wrong = families.findIndex((family, i) => family !== undefined && ipFamilies[i] !== family)
  if (wrong === -1) return []
  const problem = `must be ${families[wrong]}, the family of spec.clusterIPs[${wrong}]`
  return [{ path: `spec.ipFamilies[${wrong}]`, problem }]
}
