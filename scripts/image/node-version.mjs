/** Node in the tests' images and on the emulated processor: the line of Node that the Dockerfile names. */
export const node = { version: '24.21.0', npm: '11.19.1' }
