// The expected result of examples/shop: the server behind each virtual IP, and the kernel's table.
import type { Target } from '../support/traffic.js'
import { tcp, udp } from './shop-lab.js'

export interface ShopPort {
  readonly name: string
  readonly target: Target
  /** `ADDRESS PORT` of every backend, sorted; no other may ever answer. */
  readonly backends: readonly string[]
}

function on(port: number, ...addresses: readonly string[]): readonly string[] {
  return addresses.map((address) => `${address} ${port}`)
}

/** Every port with round robin. */
export const shopPorts: readonly ShopPort[] = [
  { name: 'web http, IPv4', target: tcp('10.96.0.20', 80), backends: on(8080, '10.244.1.11', '10.244.1.12') },
  {
    name: 'web https, IPv4',
    target: tcp('10.96.0.20', 443),
    backends: on(8443, '10.244.1.11', '10.244.1.12'),
  },
  {
    name: 'web http, IPv6',
    target: tcp('fd00:10:96::20', 80),
    backends: on(8080, 'fd00:10:244::1:11', 'fd00:10:244::1:12'),
  },
  {
    name: 'web https, IPv6',
    target: tcp('fd00:10:96::20', 443),
    backends: on(8443, 'fd00:10:244::1:11', 'fd00:10:244::1:12'),
  },
  { name: 'dns, UDP, IPv4', target: udp('10.96.0.10', 53), backends: on(5353, '10.244.2.11', '10.244.2.12') },
  { name: 'dns, TCP, IPv4', target: tcp('10.96.0.10', 53), backends: on(5353, '10.244.2.11', '10.244.2.12') },
  { name: 'dns, UDP, IPv6', target: udp('fd00:10:96::10', 53), backends: on(5353, 'fd00:10:244::2:11') },
  { name: 'dns, TCP, IPv6', target: tcp('fd00:10:96::10', 53), backends: on(5353, 'fd00:10:244::2:11') },
  {
    name: 'cart, IPv6 only',
    target: tcp('fd00:10:96::30', 7000),
    backends: on(7000, 'fd00:10:244::4:11', 'fd00:10:244::4:12'),
  },
  {
    name: 'payments, two slices',
    target: tcp('10.96.0.40', 9000),
    backends: on(9090, '10.244.3.11', '10.244.3.12', '10.244.3.13'),
  },
]

/** One client keeps one of these. */
export const sessionsPort: ShopPort = {
  name: 'sessions, with affinity',
  target: tcp('10.96.0.50', 8000),
  backends: on(8000, '10.244.5.11', '10.244.5.12', '10.244.5.13'),
}

/** Lines of `ipvsadm -Sn`, sorted. */
export const shopTable: readonly string[] = `
-A -t 10.96.0.10:53 -s rr
-A -t 10.96.0.20:443 -s rr
-A -t 10.96.0.20:80 -s rr
-A -t 10.96.0.40:9000 -s rr
-A -t 10.96.0.50:8000 -s rr -p 600
-A -t [fd00:10:96::10]:53 -s rr
-A -t [fd00:10:96::20]:443 -s rr
-A -t [fd00:10:96::20]:80 -s rr
-A -t [fd00:10:96::30]:7000 -s rr
-A -u 10.96.0.10:53 -s rr
-A -u [fd00:10:96::10]:53 -s rr
-a -t 10.96.0.10:53 -r 10.244.2.11:5353 -m -w 1
-a -t 10.96.0.10:53 -r 10.244.2.12:5353 -m -w 1
-a -t 10.96.0.20:443 -r 10.244.1.11:8443 -m -w 1
-a -t 10.96.0.20:443 -r 10.244.1.12:8443 -m -w 1
-a -t 10.96.0.20:80 -r 10.244.1.11:8080 -m -w 1
-a -t 10.96.0.20:80 -r 10.244.1.12:8080 -m -w 1
-a -t 10.96.0.40:9000 -r 10.244.3.11:9090 -m -w 1
-a -t 10.96.0.40:9000 -r 10.244.3.12:9090 -m -w 1
-a -t 10.96.0.40:9000 -r 10.244.3.13:9090 -m -w 1
-a -t 10.96.0.50:8000 -r 10.244.5.11:8000 -m -w 1
-a -t 10.96.0.50:8000 -r 10.244.5.12:8000 -m -w 1
-a -t 10.96.0.50:8000 -r 10.244.5.13:8000 -m -w 1
-a -t [fd00:10:96::10]:53 -r [fd00:10:244::2:11]:5353 -m -w 1
-a -t [fd00:10:96::20]:443 -r [fd00:10:244::1:11]:8443 -m -w 1
-a -t [fd00:10:96::20]:443 -r [fd00:10:244::1:12]:8443 -m -w 1
-a -t [fd00:10:96::20]:80 -r [fd00:10:244::1:11]:8080 -m -w 1
-a -t [fd00:10:96::20]:80 -r [fd00:10:244::1:12]:8080 -m -w 1
-a -t [fd00:10:96::30]:7000 -r [fd00:10:244::4:11]:7000 -m -w 1
-a -t [fd00:10:96::30]:7000 -r [fd00:10:244::4:12]:7000 -m -w 1
-a -u 10.96.0.10:53 -r 10.244.2.11:5353 -m -w 1
-a -u 10.96.0.10:53 -r 10.244.2.12:5353 -m -w 1
-a -u [fd00:10:96::10]:53 -r [fd00:10:244::2:11]:5353 -m -w 1
`
  .trim()
  .split('\n')

/** Virtual IPs of the table, sorted. */
export const shopAddresses: readonly string[] =
  '10.96.0.10 10.96.0.20 10.96.0.40 10.96.0.50 fd00:10:96::10 fd00:10:96::20 fd00:10:96::30'.split(' ')
