import type { Addon, RawNetworkNamespace } from './addon.js'

/** The addon, with constructors that open their sockets in an empty network namespace. The first one creates it. Throws RawError. */
export function isolatedAddon(addon: Addon): Addon {
  let place: RawNetworkNamespace | undefined
  // A copy: the properties of the addon cannot be replaced.
  return new Proxy(
    { ...addon },
    {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' && name !== 'NetworkNamespace' ? within(value) : value
      },
    },
  )

  function within(constructor: Function): Function {
    return new Proxy(constructor, {
      construct: (target, args) => {
        place ??= new addon.NetworkNamespace()
        return place.run((): object => Reflect.construct(target, args))
      },
    })
  }
}
