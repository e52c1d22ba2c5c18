// The manual pages: viaduct(8) from the table of flags, and one for each command from the table of commands. Needs out/ts.

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
  const { commands } = await import('../../out/ts/src/commands/index.js')
  const { version } = await import('../../out/ts/src/version.js')
  return `.TH VIADUCT 8 "" "viaduct ${version}" "System Administration"
.SH NAME
viaduct \\- program the kernel's load balancing for the Services of a Kubernetes cluster
.SH SYNOPSIS
.B viaduct
[\\fIflags\\fR]
.br
.B viaduct
\\fIcommand\\fR [\\fIarguments\\fR] [\\fIoptions\\fR]
.SH DESCRIPTION
Viaduct runs on each node of a cluster, in place of kube\\-proxy. It needs CAP_NET_ADMIN. Flags that kube\\-proxy has keep their names
and meanings. The rules stay in force when the program ends.
.PP
With a command, it does one task and ends. Each command has a page of its own.
.SH COMMANDS
${commands.map(({ name, help }) => `.TP\n\\fB${plain(name)}\\fR\n${plain(help)}\n`).join('')}.SH OPTIONS
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
\\fI/run/viaduct/viaduct.sock\\fR
the socket on which the agent answers the commands
.TP
\\fI/run/xtables.lock\\fR
the lock of the iptables tools
.TP
\\fI/etc/modules\\-load.d\\fR
modules of the kernel that are loaded at boot. The kernel loads those that Viaduct needs by itself, unless kernel.modules_disabled is 1, or
IP_VS before Linux 5.16 where the module xt_ipvs is not installed: then name them in a file there
.SH EXIT STATUS
0: stopped by a signal, or the task is done. 1: the agent cannot run. 2: wrong flags or configuration.
.SH SEE ALSO
${commands.map(({ name }) => `.BR ${plain(pageOf(name))} (1),\n`).join('')}.BR systemctl (1),
.BR iptables (8),
.BR nft (8)
`
}

/** @param {string} command */
function pageOf(command) {
  return `viaduct-${command}`
}

/** @param {{ name: string, help: string, choices?: readonly string[] }} argument */
function argumentEntry({ name, help, choices }) {
  return `.TP\n\\fI${plain(name)}\\fR\n${plain(choices === undefined ? help : `${help}: ${choices.join(', ')}`)}\n`
}

/** @param {{ name: string, short?: string, metavar?: string, help: string, choices?: readonly string[], initial?: string }} option */
function optionEntry({ name, short, metavar, help, choices, initial }) {
  const dashes = short === undefined ? `--${name}` : `-${short}, --${name}`
  const value = metavar === undefined ? '' : ` \\fI${plain(metavar)}`
  const allowed = choices === undefined ? '' : `: ${choices.join(', ')}`
  const preset = initial === undefined ? '' : ` (default ${initial})`
  return `.TP\n\\fB${plain(dashes)}\\fR${value}\\fR\n${plain(help + allowed + preset)}\n`
}

/** The manual pages of the commands, in section 1. @returns {Promise<{ name: string, text: string }[]>} troff sources, by name of page */
export async function commandPages() {
  const { commands, exitCodes, optionsOf } = await import('../../out/ts/src/commands/index.js')
  const { version } = await import('../../out/ts/src/version.js')
  return commands.map((command) => {
    const { name, help, description, arguments: words, examples, finds } = command
    const usage = words.map(
      (word) => ` ${word.isRequired ? '' : '['}\\fI${plain(word.name)}\\fR${word.isRequired ? '' : ']'}`,
    )
    const entries = [...words.map(argumentEntry), ...optionsOf(command).map(optionEntry)].join('')
    const codes = exitCodes.map(
      ({ code, help: meaning }) =>
        `.TP\n${code}\n${plain(code === 1 && finds !== undefined ? finds : meaning)}\n`,
    )
    const page = pageOf(name)
    const text = `.TH ${plain(page.toUpperCase())} 1 "" "viaduct ${version}" "User Commands"
.SH NAME
${plain(page)} \\- ${plain(help)}
.SH SYNOPSIS
.B viaduct ${plain(name)}
[\\fIoptions\\fR]${usage.join('')}
.SH DESCRIPTION
${plain(description)}
${entries === '' ? '' : `.SH OPTIONS\n${entries}`}.SH EXIT STATUS
${codes.join('')}.SH EXAMPLES
${examples.map(({ line, help: use }) => `.TP\n\\fBviaduct ${plain(line)}\\fR\n${plain(use)}\n`).join('')}.SH SEE ALSO
.BR viaduct (8)
`
    return { name: page, text }
  })
}
