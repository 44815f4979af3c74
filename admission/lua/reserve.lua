-- Admits many buyers in one run. All reads and checks of an order come before its
-- writes, and the run is idempotent by order id, because clients and their
-- libraries resend.
--
-- KEYS gate stock orders buyers keys pending
-- ARGV epoch, most pending orders, then for each order: id user sku quantity key
--
-- Replies with one status word for the whole gate and, if that is "open", one
-- string an order:
--   ok AT             reserved now, at AT (ms of this server's clock)
--   known ID RECORD   this order, or the one that the key or the limit points to
--   limit ID...       the limit would be passed; the buyer's newest charged orders
--   ended | not-started | paused | sold-out | no-sku | backlog | bad
--
-- An order that is known is told before the window is looked at: a buyer whose
-- answer got lost just before the end has to learn the truth after it.
local gate, refusal = open_gate(KEYS[1], ARGV[1], 'sale', 'starts', 'ends')
if not gate then return refusal end
local refused, now = refused_now(gate[4], gate[5], gate[6])
local at = string.format('%.0f', now)
local room = tonumber(ARGV[2]) - redis.call('ZCARD', KEYS[6])
local limits, stocks = {}, {}

local function limit_of(sku)
  if limits[sku] == nil then
    limits[sku] = tonumber(redis.call('HGET', KEYS[1], 'limit:' .. sku) or false) or false
    stocks[sku] = tonumber(redis.call('HGET', KEYS[2], sku) or '0')
  end
  return limits[sku]
end

local function admit(id, user, sku, quantity, key)
  local known = redis.call('HGET', KEYS[3], id)
  if known then return 'known ' .. id .. ' ' .. known end
  local field = #user .. ' ' .. user .. key
  if key ~= '' then
    local earlier = redis.call('HGET', KEYS[5], field)
    if earlier then return 'known ' .. earlier .. ' ' .. redis.call('HGET', KEYS[3], earlier) end
  end
  local n = tonumber(quantity)
  if not n or n < 1 or n > 1000000 or n ~= math.floor(n) then return 'bad' end
  local limit = limit_of(sku)
  if not limit then return refused or 'no-sku' end

  local buyer = sku .. ' ' .. user
  local charged, ids = 0, ''
  local entry = redis.call('HGET', KEYS[4], buyer)
  if entry then
    local units, rest = entry:match('^(%d+)(.*)$')
    charged, ids = tonumber(units), rest
  end
  if charged + n > limit then
    if limit == 1 and n == 1 and key == '' then
      local mine = ids:match('%S+')
      return 'known ' .. mine .. ' ' .. redis.call('HGET', KEYS[3], mine)
    end
    return refused or 'limit' .. ids
  end
  if refused then return refused end
  if stocks[sku] < n then return 'sold-out' end
  if room < 1 then return 'backlog' end

  room = room - 1
  stocks[sku] = stocks[sku] - n
  redis.call('HINCRBY', KEYS[2], sku, -n)
  redis.call('HSET', KEYS[3], id, 'p ' .. quantity .. ' ' .. at .. ' ' .. sku .. ' ' .. field)
  -- At most 32 ids are kept, newest first: they are only shown, the units count.
  redis.call('HSET', KEYS[4], buyer, string.format('%d', charged + n) .. ' ' .. id .. ids:sub(1, 31 * 23))
  if key ~= '' then redis.call('HSET', KEYS[5], field, id) end
  redis.call('ZADD', KEYS[6], at, id)
  return 'ok ' .. at
end

local reply = {'open'}
for i = 3, #ARGV, 5 do
  reply[#reply + 1] = admit(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
return reply
