/** Manifest of an EndpointSlice whose Service is gone. */
export const olderSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: gone-1, namespace: shop, labels: { kubernetes.io/service-name: gone } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints: [{ addresses: [10.99.1.9] }]
`

/** Manifests of Services that an older agent knew and that are gone now, for tests of plans. */
export const olderServices = `
apiVersion: v1
kind: Service
metadata: { name: gone, namespace: shop }
spec:
  type: NodePort
  clusterIP: 10.96.9.9
  sessionAffinity: ClientIP
  ports: [{ name: http, port: 80, nodePort: 30999 }]
---${olderSlice}`
