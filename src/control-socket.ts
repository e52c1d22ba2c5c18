/** The agent's control socket, unless --control-socket names another. Agent and commands share it. */
export const defaultControlSocket = '/run/viaduct/viaduct.sock'

/** The longest path of a Unix socket: sockaddr_un.sun_path has 108 bytes, the last one for the end of the text. */
export const maxSocketPathBytes = 107
