// The manual page viaduct(8), from the table of flags. Needs out/ts.

/** @param {string} text @returns {string} for troff: no line begins with a request */
function plain(text) {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/gmu, '\\&')
}

/** @param {{ name: string, metavar?: string, help: string, defaultText: string }} flag */
function entry({ name, metavar, help, defaultText }) {
  const dashes = name.length === 1 ? `-${name}, --${name}` : `--${name}`
  const value = metavar === undefined ? '' : `\\fR=\\fI${plain(metavar)}`
  const preset = ['', 'false'].includes(defaultText) ? '' : ` (default ${defaultText})`
  return `.TP\n\\fB${plain(dashes)}${value}\\fR\n${plain(help + preset)}\n`
}

/** @returns {Promise<string>} troff source */
export async function manualPage() {
  const { flags } = await import('../../out/ts/src/cli/index.js')
  const { version } = await import('../../out/ts/src/config/index.js')
  return `.TH VIADUCT 8 "" "viaduct ${version}" "System Administration"
.SH NAME
viaduct \\- program the kernel's load balancing for the Services of a Kubernetes cluster
.SH SYNOPSIS
.B viaduct
[\\fIflags\\fR]
.SH DESCRIPTION
Viaduct runs on each node of a cluster, in place of kube\\-proxy. It needs CAP_NET_ADMIN. Flags that kube\\-proxy has keep their names
and meanings. The rules stay in force when the program ends.
.SH OPTIONS
${flags.map(entry).join('')}.TP
\\fB\\-\\-version\\fR
print the version and exit
.TP
\\fB\\-h, \\-\\-help\\fR
print the flags and exit
.SH FILES
.TP
\\fI/etc/default/viaduct\\fR
flags and environment of the unit
.TP
\\fI/etc/viaduct/config.yaml\\fR
the configuration that the unit reads; /usr/share/doc/viaduct/examples has one to begin with
.TP
\\fI/run/xtables.lock\\fR
the lock of the iptables tools
.SH EXIT STATUS
0: stopped by a signal, or the task is done. 1: the agent cannot run. 2: wrong flags or configuration.
.SH SEE ALSO
.BR systemctl (1),
.BR iptables (8),
.BR nft (8)
`
}
