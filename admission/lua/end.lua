-- Gives the gate of a closed sale an end, once nothing of it is pending: its keys
-- expire together. Changes nothing if they will already.
--
-- KEYS gate stock orders buyers keys pending
-- ARGV epoch, ms from now
-- Replies {open, epoch, 1 if they expire from now on} or {not-ready, epoch, state}.
local gate, refusal = open_gate(KEYS[1], ARGV[1], 'sale')
if not gate then return refusal end
if gate[4] ~= 'closed' or redis.call('ZCARD', KEYS[6]) > 0 or redis.call('PTTL', KEYS[1]) >= 0 then
  return {'open', gate[1], 0}
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return {'open', gate[1], 1}
