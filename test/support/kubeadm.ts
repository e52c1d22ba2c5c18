// Reads the files that kubeadm writes for kube-proxy (test/support/kubeadm).
import { load } from 'js-yaml'
import { treeText } from './tree.js'

interface ConfigMap {
  readonly data: { readonly 'config.conf': string; readonly 'kubeconfig.conf': string }
}

const configMap: ConfigMap = JSON.parse(
  JSON.stringify(load(treeText('test/support/kubeadm/config-map.yaml'))),
)

/** The configuration of kube-proxy. */
export const kubeadmConfig = configMap.data['config.conf']
/** The kubeconfig that the configuration names: https://control-plane.example:6443, and the pod's service account. */
export const kubeadmKubeconfig = configMap.data['kubeconfig.conf']
