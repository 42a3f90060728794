// Changes of a stream's declaration that lose nobody else's.

import { ApiError } from '../api/client';
import { declare, getDeclaration } from '../api/routes';
import type { Spec } from '../api/types';
import type { StreamState } from './stream';

/** Reads the declaration, changes its spec and writes it back; again if somebody else was faster. */
export async function changeSpec(state: StreamState, change: (spec: Spec) => Spec): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { declaration, tag } = await getDeclaration(state.name);
    try {
      await declare({ ...declaration, spec: change(declaration.spec) }, tag);
      break;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 412) || attempt === 2) throw error;
    }
  }
  await state.reload();
}
