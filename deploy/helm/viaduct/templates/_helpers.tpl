{{/* The two documents of config.yaml. */}}
{{- define "viaduct.config" -}}
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
{{ with .Values.kubeProxyConfiguration }}{{ toYaml . }}
{{ end -}}
---
apiVersion: viaduct.dev/v1alpha1
kind: ViaductConfiguration
{{ with .Values.viaductConfiguration }}{{ toYaml . }}
{{ end -}}
{{- end }}

{{/* The variables with which a pod finds the API server. */}}
{{- define "viaduct.apiServer" -}}
KUBERNETES_SERVICE_HOST: {{ required "apiServer.host: set the API server's address as a node reaches it without kube-proxy" .Values.apiServer.host | quote }}
KUBERNETES_SERVICE_PORT: {{ .Values.apiServer.port | quote }}
{{- end }}

{{/* The names of the ConfigMaps end with a hash of their content: an edit rolls over the nodes, instead of reaching all of them at once. */}}
{{- define "viaduct.configName" -}}
viaduct-{{ include "viaduct.config" . | sha256sum | trunc 10 }}
{{- end }}
{{- define "viaduct.apiServerName" -}}
viaduct-api-server-{{ include "viaduct.apiServer" . | sha256sum | trunc 10 }}
{{- end }}

{{/* What the agent and its init container have in common. */}}
{{- define "viaduct.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
{{- if not .Values.kubeProxyConfigMap }}
envFrom:
  - configMapRef:
      name: {{ include "viaduct.apiServerName" . }}
{{- end }}
volumeMounts:
  - name: config
    {{- /* kubeadm's configuration names its kubeconfig by this path. */}}
    mountPath: {{ ternary "/var/lib/kube-proxy" "/etc/viaduct" (ne .Values.kubeProxyConfigMap "") }}
    readOnly: true
  - name: xtables-lock
    mountPath: /run/xtables.lock
{{- end }}

{{- define "viaduct.args" -}}
- --config={{ ternary "/var/lib/kube-proxy/config.conf" "/etc/viaduct/config.yaml" (ne .Values.kubeProxyConfigMap "") }}
- --hostname-override=$(NODE_NAME)
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
