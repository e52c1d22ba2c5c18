// The two documents of a configuration file.
import type { Field } from './field.js'
import { kubeProxyFields } from './kube-proxy-fields.js'
import { viaductFields } from './viaduct-fields.js'

export interface DocumentKind {
  readonly kind: 'KubeProxyConfiguration' | 'ViaductConfiguration'
  readonly apiVersion: string
  readonly fields: () => readonly Field[]
}

export const kubeProxyConfiguration: DocumentKind = {
  kind: 'KubeProxyConfiguration',
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  fields: kubeProxyFields,
}

/** In the order in which they are written. */
export const documentKinds: readonly DocumentKind[] = [
  kubeProxyConfiguration,
  { kind: 'ViaductConfiguration', apiVersion: 'viaduct.dev/v1alpha1', fields: viaductFields },
]
