-- Brings totals, as operators changed them in the ledger, to an open gate. Level-
-- triggered: the gate keeps the version of each total, and a call of the same or an
-- older one changes nothing, however late it comes.
--
-- KEYS gate stock
-- ARGV epoch, then for each SKU: id version total
-- Replies {open, epoch, SKUs changed} or {not-ready, epoch, state}.
local gate, refusal = open_gate(KEYS[1], ARGV[1])
if not gate then return refusal end
local changed = 0
for i = 2, #ARGV, 3 do
  local sku, version, total = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local had, units = (redis.call('HGET', KEYS[1], 'total:' .. sku) or ''):match('^(%d+) (%d+)$')
  if had and tonumber(version) > tonumber(had) then
    redis.call('HINCRBY', KEYS[2], sku, string.format('%d', tonumber(total) - tonumber(units)))
    redis.call('HSET', KEYS[1], 'total:' .. sku, version .. ' ' .. total)
    changed = changed + 1
  end
end
-- The version tells nodes that remember "sold out" that units came.
if changed > 0 then redis.call('HINCRBY', KEYS[1], 'version', 1) end
return {'open', gate[1], changed}
