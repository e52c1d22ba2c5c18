// Makes out/packages/viaduct_VERSION_ARCH.deb: dist/ in /usr/lib/viaduct, the unit, /etc/default/viaduct, /usr/sbin/viaduct, the manual
// pages and the completion of shells. Needs dist/, out/ts and dpkg-deb.
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { npmLicences } from '../image-files.mjs'
import { isMain, must, read, root, runMain, StepError } from '../steps.mjs'
import { commandPages, manualPage } from './man.mjs'

const launcher = '#!/bin/sh\nexec /usr/bin/node /usr/lib/viaduct/agent.js "$@"\n'
const maintainer = 'The authors of Viaduct <viaduct@localhost.localdomain>'

/** Overrides of lintian, with their reasons. */
const overrides = `# The package is built on the user's machine, so its maintainer has no public address.
viaduct: bogus-mail-host *
viaduct: bogus-mail-host-in-debian-changelog *
# An update restarts the agent and does not wait for it: deb-systemd-invoke has no --no-block.
viaduct: maintainer-script-calls-systemctl [postinst:*]
`

/** Debian's names of architectures, by Node's. */
const architectures = { x64: 'amd64', arm64: 'arm64' }

/** @param {string} folder @param {string} path @param {string | Uint8Array} content @param {number} [mode] */
function put(folder, path, content, mode = 0o644) {
  const file = join(folder, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, content)
  chmodSync(file, mode)
}

/** @param {string} path from the root of the working tree */
function tree(path) {
  return readFileSync(join(root, path), 'utf8')
}

/** Gzip without a time in its header, so that the same content gives the same bytes. @param {string} text */
function packed(text) {
  return gzipSync(text, { level: 9 })
}

/** The unit with the paths of the package. */
function unit() {
  return tree('deploy/systemd/viaduct.service')
    .replace('docs/installing.md has the paths of its files.', 'viaduct(8) has the paths of its files.')
    .replace('[Unit]\n', '[Unit]\nDocumentation=man:viaduct(8)\n')
    .replace('/etc/viaduct/viaduct.env', '/etc/default/viaduct')
    .replace('/opt/viaduct/', '/usr/lib/viaduct/')
}

/** Debian's changelog of this release alone. @param {string} version */
async function changelog(version) {
  const date = await read(['git', 'log', '-1', '--format=%cD'])
  return `viaduct (${version}) unstable; urgency=medium\n\n  * Release ${version}.\n\n -- ${maintainer}  ${date}\n`
}

/** @param {string} folder @param {string} version @param {string} architecture */
function control(folder, version, architecture) {
  const sizes = readdirSync(folder, { recursive: true }).map((name) => statSync(join(folder, name)))
  const bytes = sizes.reduce((sum, { size }) => sum + size, 0)
  return `Package: viaduct
Version: ${version}
Architecture: ${architecture}
Maintainer: ${maintainer}
Section: net
Priority: optional
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: nodejs (>= 20.20), libc6 (>= 2.34), libstdc++6 (>= 11)
Description: drop-in kube-proxy for bare metal
 Viaduct programs the kernel's load balancing for the Services of a Kubernetes
 cluster, by iptables, nftables, IPVS or a relay in userspace.
 It takes over from a running kube-proxy, and takes its flags and configuration.
`
}

/** Where Debian's shells find the completion of a command. zsh has no such place for a script that emulates bash. */
const completions = {
  bash: 'usr/share/bash-completion/completions/viaduct',
  fish: 'usr/share/fish/vendor_completions.d/viaduct.fish',
}

/** @param {string} folder @param {string} version */
async function fill(folder, version) {
  cpSync(join(root, 'dist'), join(folder, 'usr/lib/viaduct'), { recursive: true })
  for (const name of readdirSync(join(folder, 'usr/lib/viaduct')))
    chmodSync(join(folder, 'usr/lib/viaduct', name), 0o644)
  await must(['strip', '--strip-unneeded', join(folder, 'usr/lib/viaduct/viaduct.node')])
  put(folder, 'usr/sbin/viaduct', launcher, 0o755)
  put(folder, 'lib/systemd/system/viaduct.service', unit())
  put(folder, 'etc/default/viaduct', tree('deploy/systemd/viaduct.env'))
  put(folder, 'usr/share/man/man8/viaduct.8.gz', packed(await manualPage()))
  for (const { name, text } of await commandPages())
    put(folder, `usr/share/man/man1/${name}.1.gz`, packed(text))
  for (const [shell, path] of Object.entries(completions)) {
    const script = await read([process.execPath, join(root, 'dist/agent.js'), 'completion', shell])
    put(folder, path, `${script}\n`)
  }
  put(folder, 'usr/share/doc/viaduct/copyright', tree('deploy/debian/copyright'))
  put(folder, 'usr/share/doc/viaduct/changelog.gz', packed(await changelog(version)))
  put(folder, 'usr/share/doc/viaduct/LICENSES-npm', npmLicences())
  put(folder, 'usr/share/lintian/overrides/viaduct', overrides)
  put(folder, 'usr/share/doc/viaduct/examples/config.yaml', tree('deploy/kubernetes/base/config.yaml'))
}

/** @returns {Promise<string>} the package's path */
export async function packDeb() {
  const { version } = JSON.parse(tree('package.json'))
  const architecture = architectures[process.arch]
  if (architecture === undefined) throw new StepError(`there is no package for ${process.arch}`)
  const folder = join(root, 'out/packages/deb')
  rmSync(folder, { recursive: true, force: true })
  const former = process.umask(0o022)
  try {
    await fill(folder, version)
    const text = control(folder, version, architecture)
    put(folder, 'DEBIAN/control', text)
    put(folder, 'DEBIAN/conffiles', '/etc/default/viaduct\n')
    for (const script of ['postinst', 'prerm', 'postrm'])
      put(folder, `DEBIAN/${script}`, tree(`deploy/debian/${script}`), 0o755)
  } finally {
    process.umask(former)
  }
  const file = join(root, `out/packages/viaduct_${version}_${architecture}.deb`)
  await must(['dpkg-deb', '--root-owner-group', '-Zxz', '--build', folder, file])
  return file
}

if (isMain(import.meta.url)) await runMain(async () => console.log(await packDeb()))
