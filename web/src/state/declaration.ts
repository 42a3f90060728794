// Changes of a stream's declaration that lose nobody else's.

import { ApiError } from '../api/client';
import { declare, getDeclaration } from '../api/routes';
import type { Spec } from '../api/types';
import type { StreamState } from './stream';

/** Reads the declaration, changes its spec and writes it back; again if somebody else was faster. */
export async function changeSpec(state: StreamState, change: (spec: Spec) => Spec): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { declaration, tag } = await getDeclaration(state.name);
    const spec = change(declaration.spec);
    try {
      await declare({ ...declaration, spec }, tag);
      // The list of streams may still have the spec of before for a moment.
      state.declared(spec);
      return;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 412) || attempt === 2) throw error;
    }
  }
}
