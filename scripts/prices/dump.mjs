// Prints the models of a provider as JSON. It lies in the unpacked package while it runs.
import { findProvider } from './dist/index.js'

const [id] = process.argv.slice(2)
const provider = findProvider({ providerId: id })
if (provider?.id !== id) throw new Error(`no provider ${id}`)
process.stdout.write(JSON.stringify(provider.models))
