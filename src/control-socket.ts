/** The agent's control socket, unless --control-socket names another. Agent and commands share it. */
export const defaultControlSocket = '/run/viaduct/viaduct.sock'

/**
 * The number of the control API: that of the replies' shapes (commands/shapes.ts). It grows when one of them changes. A command
 * that meets another number says so, and shows what it understands.
 */
export const controlApi = 1

/** Headers of each reply: the number of the control API, and the build of the agent as people read it. Agents before number 1 send none. */
export const controlHeaders = { api: 'Viaduct-Control-API', build: 'Viaduct-Build' } as const

/** The longest path of a Unix socket: sockaddr_un.sun_path has 108 bytes, the last one for the end of the text. */
export const maxSocketPathBytes = 107
