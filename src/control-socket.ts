/** The agent's control socket, unless --control-socket names another. Agent and commands share it. */
export const defaultControlSocket = '/run/viaduct/viaduct.sock'
