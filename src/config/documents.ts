// The two documents of a configuration file, in the order in which they are written.
import type { Document } from './setting.js'

export const apiVersions: Readonly<Record<Document, string>> = {
  KubeProxyConfiguration: 'kubeproxy.config.k8s.io/v1alpha1',
  ViaductConfiguration: 'viaduct.dev/v1alpha1',
}
export const documents: readonly Document[] = ['KubeProxyConfiguration', 'ViaductConfiguration']
